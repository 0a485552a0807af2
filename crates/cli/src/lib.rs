//! Rosemary's cli.
