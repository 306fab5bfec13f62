//! Panics as values: one run must not cost those after it.

use std::{
    panic::{self, AssertUnwindSafe},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Of all threads since the last run began.
static MESSAGES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// What `work` returns, or the message of the first panic on any thread since it began, in one line.
///
/// The first one is the cause: a thread that waits for one that panicked panics as well, and says less. Panics are not
/// printed meanwhile. What `work` changed before it panicked stays changed.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    messages().clear();
    let before = panic::take_hook();
    panic::set_hook(Box::new(|info| {
        let message = info.payload_as_str().unwrap_or("without a message");
        messages().push(message.to_owned());
    }));
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    panic::set_hook(before);
    result.map_err(|_| {
        let first = messages().first().cloned().unwrap_or_default();
        let words: Vec<&str> = first.split_whitespace().collect();
        format!("panic: {}", words.join(" "))
    })
}

fn messages() -> MutexGuard<'static, Vec<String>> {
    MESSAGES.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn tells_the_first_panic_of_any_thread_in_one_line() {
        let work = || {
            let server = thread::spawn(|| panic!("out of memory:\n  {} bytes", 8));
            server.join().expect("the server answers");
        };
        assert_eq!(caught(work).unwrap_err(), "panic: out of memory: 8 bytes");
    }

    #[test]
    fn returns_what_the_work_does() {
        assert_eq!(caught(|| 3), Ok(3));
    }
}
