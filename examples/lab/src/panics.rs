//! Turns panics into errors, so that one failed run does not stop those after it.

use std::{
    panic::{self, AssertUnwindSafe},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Held while work runs, because all threads share one panic hook.
static AT_WORK: Mutex<()> = Mutex::new(());

/// The messages of all threads since the work began.
static MESSAGES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Runs `work`; if it panics, returns the message of the first panic on any thread since it began, in one line.
///
/// The first panic is the cause: a thread that waits for the one that panicked panics as well, and says less. No panic
/// is printed. Changes that `work` made before it panicked stay.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    let _at_work = lock(&AT_WORK);
    lock(&MESSAGES).clear();
    let before = panic::take_hook();
    panic::set_hook(Box::new(|info| {
        let message = info.payload_as_str().unwrap_or("without a message");
        lock(&MESSAGES).push(message.to_owned());
    }));
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    panic::set_hook(before);
    result.map_err(|_| {
        let first = lock(&MESSAGES).first().cloned().unwrap_or_default();
        first.split_whitespace().collect::<Vec<_>>().join(" ")
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn returns_the_first_panic_of_any_thread_in_one_line() {
        let work = || {
            let server = thread::spawn(|| panic!("out of memory:\n  {} bytes", 8));
            server.join().expect("the server answers");
        };
        assert_eq!(caught(work).unwrap_err(), "out of memory: 8 bytes");
        assert_eq!(caught(|| 3), Ok(3));
    }
}
