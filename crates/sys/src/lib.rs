//! Rosemary's sys.
