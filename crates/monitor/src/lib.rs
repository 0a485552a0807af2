//! Rosemary's monitor.
