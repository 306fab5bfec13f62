//! Collects the warnings that a program gives through `tracing`.

use std::{
    fmt::{self, Debug},
    sync::{Mutex, Once, PoisonError},
};

use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Returns the warnings that contain `text`, of all that this process gave since the first call.
pub fn warnings_with(text: &str) -> Vec<String> {
    static SUBSCRIBED: Once = Once::new();
    SUBSCRIBED.call_once(|| {
        tracing::subscriber::set_global_default(Warnings)
            .expect("no other subscriber was set in this process");
    });
    let warnings = WARNINGS.lock().unwrap_or_else(PoisonError::into_inner);
    warnings
        .iter()
        .filter(|warning| warning.contains(text))
        .cloned()
        .collect()
}

/// A subscriber that keeps the messages of warnings.
struct Warnings;

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        let mut message = Message(String::new());
        event.record(&mut message);
        WARNINGS
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(message.0);
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            fmt::write(&mut self.0, format_args!("{value:?}")).expect("a string takes all text");
        }
    }
}
