//! Rosemary's kernel.
