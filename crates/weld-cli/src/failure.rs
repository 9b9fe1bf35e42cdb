//! How the command fails: one line that names the thing, and an exit code.
//!
//! `error: cannot read data/orders.parquet: No such file or directory` with code 1; a wrong option is code 2.

use std::any::Any;
use std::fmt::Display;
use std::io;

use clap::error::ErrorKind;
use datafusion::arrow::error::ArrowError;
use datafusion::error::DataFusionError;

pub(crate) type Result<T> = std::result::Result<T, Failure>;

#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line is wrong.
    Usage(String),
    /// The work failed.
    Failed(String),
    /// The work failed and has said so itself.
    Reported,
    /// Whoever read the output has stopped reading: nothing is wrong.
    OutputClosed,
}

impl Failure {
    pub(crate) fn new(message: impl Display) -> Failure {
        Failure::Failed(message.to_string())
    }

    /// What a panic said.
    pub(crate) fn panic(payload: &(dyn Any + Send)) -> Failure {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Failure::Failed(format!("internal error: {text}"))
    }

    /// What clap found wrong, without the usage that it adds.
    pub(crate) fn usage(error: &clap::Error) -> Failure {
        if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
            return Failure::Usage("a subcommand is missing; --help lists them".to_owned());
        }
        let text = error.to_string();
        let text = text.strip_prefix("error: ").unwrap_or(&text);
        let text = text.split("\n\nUsage:").next().unwrap_or(text);
        Failure::Usage(text.split("\n\nFor more").next().unwrap_or(text).to_owned())
    }

    pub(crate) fn message(&self) -> &str {
        match self {
            Failure::Usage(message) | Failure::Failed(message) => message,
            Failure::Reported | Failure::OutputClosed => "",
        }
    }

    /// Prints the message of what the command can do without.
    pub(crate) fn warn(&self) {
        eprintln!("warning: {}", one_line(self.message()));
    }

    /// Prints the message, if there is one to print, and gives the process's exit code.
    pub(crate) fn report(self) -> i32 {
        let (message, code) = match self {
            Failure::Usage(message) => (message, 2),
            Failure::Failed(message) => (message, 1),
            Failure::Reported => return 1,
            Failure::OutputClosed => return 0,
        };
        eprintln!("error: {}", one_line(&message));
        code
    }
}

/// Errors of libraries say what failed; this adds what it was for.
pub(crate) trait Doing<T> {
    fn doing(self, what: impl Display) -> Result<T>;
}

impl<T, E: Into<DataFusionError>> Doing<T> for std::result::Result<T, E> {
    fn doing(self, what: impl Display) -> Result<T> {
        self.map_err(|error| Failure::Failed(format!("{what}: {}", error.into().strip_backtrace())))
    }
}

impl From<DataFusionError> for Failure {
    fn from(error: DataFusionError) -> Failure {
        Failure::Failed(error.strip_backtrace())
    }
}

impl From<ArrowError> for Failure {
    fn from(error: ArrowError) -> Failure {
        Failure::new(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::OutputClosed,
            _ => Failure::new(error),
        }
    }
}

/// Libraries break their messages into lines; a script wants one.
pub(crate) fn one_line(message: &str) -> String {
    message.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_become_one_line() {
        assert_eq!(one_line("a\n  b\n\nc\n"), "a b c");
    }

    #[test]
    fn a_closed_pipe_is_no_failure() {
        let failure = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert!(matches!(failure, Failure::OutputClosed));
    }
}
