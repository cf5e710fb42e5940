//! Whole jobs through every machine: threads and the simulator.

mod jobs;
