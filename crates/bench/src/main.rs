//! stub
use flott_runtime as _; use flott_testing as _;use timely as _; use stats_alloc as _;
#[global_allocator]
static A: mimalloc::MiMalloc = mimalloc::MiMalloc;
fn main(){}
