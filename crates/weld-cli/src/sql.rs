//! `weld sql`: SQL over files.
//!
//! `weld sql -c "select count(*) from orders" data/` runs statements; at a terminal without `-c` or `-f` it is a shell;
//! otherwise the statements come from standard input.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::{DFParser, Statement};
use futures::TryStreamExt;

use crate::cache;
use crate::engine::{self, Engine};
use crate::failure::{Failure, Result};
use crate::output::{self, Format};
use crate::program;
use crate::shell;
use crate::tables::{self, Table};

#[derive(ClapArgs)]
pub(crate) struct Args {
    /// Run these statements
    #[arg(short = 'c', long = "command", value_name = "SQL", conflicts_with = "file", allow_hyphen_values = true)]
    command: Option<String>,
    /// Run the statements of this file
    #[arg(short = 'f', long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[arg(long, default_value = "table")]
    format: Format,
    /// `datafusion` switches Weld off
    #[arg(long, default_value = "weld")]
    engine: Engine,
    /// Run DataFusion's own plans too and fail where the results differ, as `SET weld.verify = true` does
    #[arg(long)]
    verify: bool,
    #[command(flatten)]
    cache: cache::Use,
    #[command(flatten)]
    source: Source,
    /// Folder whose .parquet, .csv and .json files become tables named after them
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

/// Over which tables, and on how many threads.
#[derive(ClapArgs)]
pub(crate) struct Source {
    /// A table from a Parquet, CSV or JSON file, or from a folder of Parquet files; may be given many times
    #[arg(long = "table", value_name = "NAME=PATH", value_parser = Table::parse)]
    tables: Vec<Table>,
    /// DataFusion's target partitions, and the number of threads [default: the number of cores]
    #[arg(long, short = 'p', value_parser = clap::value_parser!(u16).range(1..), value_name = "N")]
    partitions: Option<u16>,
}

impl Source {
    pub(crate) fn runtime(&self) -> Result<engine::Runtime> {
        engine::runtime(self.partitions()).map_err(Failure::new)
    }

    /// A session with the tables registered, and those of a folder that can be read.
    pub(crate) async fn session(
        &self,
        engine: Engine,
        settings: &[(String, String)],
        folder: Option<&Path>,
    ) -> Result<SessionContext> {
        let session = engine::session_with(engine, self.partitions(), settings)?;
        let found = folder.map(tables::in_folder).transpose()?.unwrap_or_default();
        let mut tables = Vec::new();
        for table in found {
            match table.register(&session).await {
                Ok(()) => tables.push(table),
                Err(failure) => failure.warn(),
            }
        }
        for table in &self.tables {
            table.register(&session).await?;
        }
        for table in tables.iter().chain(&self.tables) {
            table.register_lower_case(&session).await?;
        }
        Ok(session)
    }

    fn partitions(&self) -> usize {
        self.partitions.map_or_else(engine::default_partitions, usize::from)
    }
}

pub(crate) fn run(args: Args) -> Result<()> {
    if args.verify && args.engine != Engine::Weld {
        return Err(Failure::Usage("--verify compares Weld with DataFusion: it needs --engine weld".to_owned()));
    }
    let runtime = args.source.runtime()?;
    let session = runtime.block_on(args.source.session(args.engine, &args.cache.settings(), args.folder.as_deref()))?;
    if args.verify {
        session.state_ref().write().config_mut().options_mut().set("weld.verify", "true")?;
    }
    match statements_text(&args)? {
        Some(text) => runtime.block_on(run_statements(&session, &text, args.format)),
        None => shell::run(&runtime, &session, args.format),
    }
}

/// What to run; nothing when a person is to type it.
fn statements_text(args: &Args) -> Result<Option<String>> {
    if let Some(text) = &args.command {
        return Ok(Some(text.clone()));
    }
    if let Some(path) = &args.file {
        return program::read(path).map(Some);
    }
    if std::io::stdin().is_terminal() {
        return Ok(None);
    }
    program::read_input().map(Some)
}

/// Runs statements separated by semicolons, printing each one's result; stops at the first that fails.
pub(crate) async fn run_statements(session: &SessionContext, text: &str, format: Format) -> Result<()> {
    for statement in parse(text)? {
        run_statement(session, statement, format).await?;
    }
    Ok(())
}

pub(crate) fn parse(text: &str) -> Result<Vec<Statement>> {
    Ok(DFParser::parse_sql(text)?.into())
}

/// Gives the number of rows of the result.
pub(crate) async fn run_statement(session: &SessionContext, statement: Statement, format: Format) -> Result<usize> {
    let plan = session.state().statement_to_plan(statement).await?;
    let files = tables::files(&plan)?;
    let stream = weld_datafusion::execute_statement(session, plan).await?.execute_stream().await?;
    let schema = stream.schema();
    // Data that goes bad in the middle says what is wrong with it, but not where it is.
    let named = stream.map_err(move |error| match tables::is_bad_data(&error) {
        true if !files.is_empty() => error.context(format!("cannot read {}", files.join(" or "))),
        _ => error,
    });
    let stream = Box::pin(RecordBatchStreamAdapter::new(schema, named));
    output::rows(stream, format).await
}
