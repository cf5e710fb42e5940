//! What people run: the examples as programs, with their output, errors and exit codes; and jobs run by the façade.

mod flights;
mod interrupt;
mod jobs;
mod program;
