//! Threads that drive tasks: [`Executor`], a fixed pool for any number of tasks.
//!
//! A task is queued when its waker is called and runs a few steps at a time. A timer thread is not needed: a worker
//! that finds nothing queued sleeps until the earliest deadline of a blocked task.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};
use std::time::Duration;

use flott_core::{Clock, Joined, Result, Threads, Timestamp};

use crate::task::{Step, Task};

/// Steps of a task before others get their turn.
const TURN: usize = 8;

const RESTING: u8 = 0;
const QUEUED: u8 = 1;
const RUNNING: u8 = 2;
/// Woken while running: to be queued again.
const WOKEN: u8 = 3;
const OVER: u8 = 4;

/// A task in the pool.
pub struct TaskCell {
    state: AtomicU8,
    task: Mutex<Option<Task>>,
    pool: Arc<Pool>,
    number: usize,
    /// The earliest deadline that is queued for it (ms); `i64::MAX`: none.
    deadline: AtomicI64,
}

impl Wake for TaskCell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_to_be_queued() {
            self.pool.queue(Arc::clone(self));
        }
    }
}

impl TaskCell {
    /// Marks the task as woken; whether the caller has to queue it. One that runs is queued when its turn is over.
    fn is_to_be_queued(&self) -> bool {
        let mut state = self.state.load(Ordering::Acquire);
        loop {
            let next = match state {
                RESTING => QUEUED,
                RUNNING => WOKEN,
                _ => return false,
            };
            match self.state.compare_exchange_weak(state, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return state == RESTING,
                Err(now) => state = now,
            }
        }
    }
}

struct Pool {
    work: Mutex<Work>,
    more: Condvar,
    clock: Arc<dyn Clock>,
}

#[derive(Default)]
struct Work {
    queue: VecDeque<Arc<TaskCell>>,
    /// Blocked tasks with a deadline: (when, number of the task).
    deadlines: BinaryHeap<Reverse<(Timestamp, usize)>>,
    /// Tasks that are not over, by number.
    tasks: BTreeMap<usize, Arc<TaskCell>>,
    next_number: usize,
    closed: bool,
    sleeping: usize,
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(&self, cell: Arc<TaskCell>) {
        let mut work = self.lock();
        work.queue.push_back(cell);
        if work.sleeping > 0 {
            self.more.notify_one();
        }
    }

    /// The next task to run; waits for one. `None`: the pool is closed.
    fn next(&self) -> Option<Arc<TaskCell>> {
        let mut work = self.lock();
        loop {
            if work.closed {
                return None;
            }
            let now = self.clock.now();
            while let Some(&Reverse((at, number))) = work.deadlines.peek() {
                if at > now {
                    break;
                }
                work.deadlines.pop();
                let Some(cell) = work.tasks.get(&number).cloned() else { continue };
                let _ = cell.deadline.compare_exchange(at.0, i64::MAX, Ordering::AcqRel, Ordering::Acquire);
                // Its turn may not be over yet: another worker has only just noted the deadline.
                if cell.is_to_be_queued() {
                    work.queue.push_back(cell);
                }
            }
            if let Some(cell) = work.queue.pop_front() {
                return Some(cell);
            }
            work.sleeping += 1;
            work = match work.deadlines.peek() {
                Some(&Reverse((at, _))) => {
                    let wait = Duration::from_millis(u64::try_from(at.0.saturating_sub(now.0)).unwrap_or(0).max(1));
                    self.more.wait_timeout(work, wait).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.more.wait(work).unwrap_or_else(PoisonError::into_inner),
            };
            work.sleeping -= 1;
        }
    }

    fn run(&self) {
        while let Some(cell) = self.next() {
            cell.state.store(RUNNING, Ordering::Release);
            let mut slot = cell.task.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(task) = slot.as_mut() else { continue };
            let mut step = Step::Progress;
            for _ in 0..TURN {
                step = task.step();
                if step != Step::Progress {
                    break;
                }
            }
            match step {
                Step::Finished => {
                    *slot = None;
                    cell.state.store(OVER, Ordering::Release);
                    self.lock().tasks.remove(&cell.number);
                }
                Step::Progress => {
                    drop(slot);
                    cell.state.store(QUEUED, Ordering::Release);
                    self.queue(cell);
                }
                Step::Blocked(until) => {
                    drop(slot);
                    if let Some(at) = until
                        && cell.deadline.fetch_min(at.0, Ordering::AcqRel) > at.0
                    {
                        let mut work = self.lock();
                        work.deadlines.push(Reverse((at, cell.number)));
                        if work.sleeping > 0 {
                            self.more.notify_one();
                        }
                    }
                    if cell.state.compare_exchange(RUNNING, RESTING, Ordering::AcqRel, Ordering::Acquire).is_err() {
                        cell.state.store(QUEUED, Ordering::Release);
                        self.queue(cell);
                    }
                }
            }
        }
    }
}

/// A fixed pool of threads.
pub struct Executor {
    pool: Arc<Pool>,
    threads: Vec<Joined>,
}

impl Executor {
    /// A pool of `size` threads (at least one).
    pub fn start(threads: &dyn Threads, size: usize, clock: Arc<dyn Clock>) -> Result<Self> {
        let pool = Arc::new(Pool { work: Mutex::default(), more: Condvar::new(), clock });
        let mut joined = Vec::new();
        for number in 0..size.max(1) {
            let pool = Arc::clone(&pool);
            joined.push(threads.spawn(&format!("flott-task-{number}"), Box::new(move || pool.run()))?);
        }
        Ok(Self { pool, threads: joined })
    }

    /// Makes place for a task and gives `make` the waker it will run by; the task starts at once.
    pub fn spawn(&self, make: impl FnOnce(Waker) -> Result<Task>) -> Result<()> {
        let cell = {
            let mut work = self.pool.lock();
            let number = work.next_number;
            work.next_number += 1;
            let cell = Arc::new(TaskCell {
                state: AtomicU8::new(RUNNING),
                task: Mutex::new(None),
                pool: Arc::clone(&self.pool),
                number,
                deadline: AtomicI64::new(i64::MAX),
            });
            work.tasks.insert(number, Arc::clone(&cell));
            cell
        };
        let task = make(Waker::from(Arc::clone(&cell))).inspect_err(|_| {
            self.pool.lock().tasks.remove(&cell.number);
        })?;
        *cell.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
        cell.state.store(QUEUED, Ordering::Release);
        self.pool.queue(cell);
        Ok(())
    }

    /// Ends the threads; tasks that are not over are dropped.
    pub fn stop(self) {
        self.pool.lock().closed = true;
        self.pool.more.notify_all();
        self.threads.into_iter().for_each(|joined| joined());
        let tasks = std::mem::take(&mut self.pool.lock().tasks);
        for cell in tasks.into_values() {
            cell.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
    }
}
