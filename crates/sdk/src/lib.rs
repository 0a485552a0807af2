//! Rosemary's sdk.
