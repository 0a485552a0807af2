//! The whole system, as an operator would use it: see each module for what it promises.

mod lab;
