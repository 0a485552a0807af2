//! Rosemary's dal.
