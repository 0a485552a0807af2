//! Rosemary's zone.
