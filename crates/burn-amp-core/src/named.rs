//! Enums whose values are written as names: in files, in environment variables and in reports.

use std::{fmt::Display, str::FromStr};

/// An enum whose values are written as names; implemented by [`named!`].
pub(crate) trait Named: Display + FromStr + 'static {
    /// The name of every value and its meaning, in the order of the variants.
    const NAMES: &'static [(&'static str, &'static str)];
}

/// Declares an enum whose values are written as names; the doc comment of a variant is also the meaning of its name.
///
/// A macro, because a function can write neither an enum nor its trait implementations.
macro_rules! named {
    (
        $(#[doc = $doc:literal])+
        $Name:ident $(= $default:ident)? {
            $($(#[doc = $meaning:literal])+ $Variant:ident = $name:literal,)*
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $Name {
            $($(#[doc = $meaning])+ #[doc = concat!("\n\nWritten `", $name, "`.")] $Variant,)*
        }

        impl $Name {
            /// Every value.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$Variant),*];

            /// The name used in `amp.toml`, in environment variables and in reports.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$Variant => $name,)* }
            }

            /// What the value means, in one sentence.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$Variant => concat!($($meaning),+).trim_ascii(),)* }
            }
        }

        $(impl Default for $Name {
            fn default() -> Self {
                Self::$default
            }
        })?

        impl std::fmt::Display for $Name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl std::str::FromStr for $Name {
            type Err = ();

            fn from_str(name: &str) -> Result<Self, ()> {
                Self::ALL.into_iter().find(|value| value.name() == name).ok_or(())
            }
        }

        impl $crate::named::Named for $Name {
            const NAMES: &'static [(&'static str, &'static str)] =
                &[$(($name, concat!($($meaning),+))),*];
        }
    };
}

pub(crate) use named;
