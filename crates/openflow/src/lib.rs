//! Rosemary's openflow.
