//! Threads that drive tasks: [`Executor`], a fixed pool for any number of tasks, and a thread for each task that blocks.
//!
//! A task is queued when its waker is called and runs a few steps at a time. A timer thread is not needed: a worker
//! that finds nothing queued sleeps until the earliest deadline of a blocked task. The thread of a task that blocks is
//! a pool of one thread for one task, which ends with it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::atomic::{AtomicI64, AtomicU8, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};
use std::time::Duration;

use flott_core::{Clock, Joined, Result, Threads, Timestamp};

use crate::catching::regardless;
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
        // With the fence in `run`: what was done before this call is seen by the turn that begins now, or the turn is
        // seen here. Without both, each could see the other's past, and the wake-up would be lost.
        fence(Ordering::SeqCst);
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
    /// It is one task's own and closes when that is over.
    own: bool,
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
    fn new(clock: Arc<dyn Clock>, own: bool) -> Arc<Self> {
        Arc::new(Self { work: Mutex::default(), more: Condvar::new(), clock, own })
    }

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

    fn spawn(self: &Arc<Self>, make: impl FnOnce(Waker) -> Result<Task>) -> Result<()> {
        let cell = {
            let mut work = self.lock();
            let number = work.next_number;
            work.next_number += 1;
            let cell = Arc::new(TaskCell {
                state: AtomicU8::new(RUNNING),
                task: Mutex::new(None),
                pool: Arc::clone(self),
                number,
                deadline: AtomicI64::new(i64::MAX),
            });
            work.tasks.insert(number, Arc::clone(&cell));
            cell
        };
        let task = make(Waker::from(Arc::clone(&cell))).inspect_err(|_| {
            self.lock().tasks.remove(&cell.number);
        })?;
        *cell.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
        cell.state.store(QUEUED, Ordering::Release);
        self.queue(cell);
        Ok(())
    }

    fn close(&self) {
        self.lock().closed = true;
        self.more.notify_all();
    }

    fn drop_tasks(&self) {
        let tasks = {
            let mut work = self.lock();
            work.queue.clear();
            std::mem::take(&mut work.tasks)
        };
        for cell in tasks.into_values() {
            let task = cell.task.lock().unwrap_or_else(PoisonError::into_inner).take();
            regardless(|| drop(task));
        }
    }

    fn run(&self) {
        while let Some(cell) = self.next() {
            cell.state.store(RUNNING, Ordering::Release);
            fence(Ordering::SeqCst);
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
                    let task = slot.take();
                    regardless(|| drop(task));
                    cell.state.store(OVER, Ordering::Release);
                    let mut work = self.lock();
                    work.tasks.remove(&cell.number);
                    work.closed |= self.own;
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

/// A fixed pool of threads, and the threads of tasks that block.
pub struct Executor {
    pool: Arc<Pool>,
    joined: Vec<Joined>,
    threads: Arc<dyn Threads>,
    /// Of tasks that block; those that are over go when the next one comes.
    own: Mutex<Vec<(Arc<Pool>, Joined)>>,
}

impl Executor {
    /// A pool of `size` threads (at least one).
    pub fn start(threads: Arc<dyn Threads>, size: usize, clock: Arc<dyn Clock>) -> Result<Self> {
        let mut executor = Self { pool: Pool::new(clock, false), joined: Vec::new(), threads, own: Mutex::default() };
        for number in 0..size.max(1) {
            let pool = Arc::clone(&executor.pool);
            let joined = executor.threads.spawn(&format!("flott-pool-{number}"), Box::new(move || pool.run()))?;
            executor.joined.push(joined);
        }
        Ok(executor)
    }

    /// Makes place for a task in the pool and gives `make` the waker it will run by; the task starts at once.
    pub fn spawn(&self, make: impl FnOnce(Waker) -> Result<Task>) -> Result<()> {
        self.pool.spawn(make)
    }

    /// As [`Executor::spawn`], on a thread of its own, which ends with the task.
    pub fn spawn_own(&self, name: &str, make: impl FnOnce(Waker) -> Result<Task>) -> Result<()> {
        let pool = Pool::new(Arc::clone(&self.pool.clock), true);
        pool.spawn(make)?;
        let run = Arc::clone(&pool);
        // No system takes a name with a zero byte.
        let name = format!("flott-task-{}", name.replace('\0', "?"));
        let joined = self.threads.spawn(&name, Box::new(move || run.run()));
        let joined = joined.inspect_err(|_| pool.drop_tasks())?;
        let over = {
            let mut own = self.own();
            own.push((pool, joined));
            own.extract_if(.., |(pool, _)| pool.lock().closed).collect::<Vec<_>>()
        };
        over.into_iter().for_each(|(_, joined)| joined());
        Ok(())
    }

    /// Ends the threads and waits for it; tasks that are not over are dropped.
    pub fn stop(mut self) {
        self.close();
        self.joined.drain(..).for_each(|joined| joined());
        self.pool.drop_tasks();
        for (pool, joined) in self.own().drain(..) {
            joined();
            pool.drop_tasks();
        }
    }

    fn own(&self) -> MutexGuard<'_, Vec<(Arc<Pool>, Joined)>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        self.pool.close();
        self.own().iter().for_each(|(pool, _)| pool.close());
    }
}

impl Drop for Executor {
    /// Threads end once the steps they are in have, without being waited for.
    fn drop(&mut self) {
        self.close();
    }
}
