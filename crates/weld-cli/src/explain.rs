//! `weld explain`: what becomes of a query or a program, level by level.
//!
//! `weld explain data/ -c "select ..." --show plan,optimized` for SQL, `weld explain program.weld --show llvm` for
//! Weld.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args as ClapArgs, ValueEnum};
use datafusion::physical_plan::{ExecutionPlan, displayable, execute_stream};
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use weld_codegen::{Compiled, FastPath, Options, Timing};
use weld_core::diag::Diagnostic;
use weld_core::ir::Program;
use weld_core::opt;

use crate::engine::Engine;
use crate::failure::{Failure, Result};
use crate::output;
use crate::program::{self, Functions, Optimizer, pass_name};
use crate::sql::{self, Source};

#[derive(ClapArgs)]
pub(crate) struct Args {
    /// Explain this query
    #[arg(short = 'c', long = "command", value_name = "SQL", conflicts_with = "file", allow_hyphen_values = true)]
    command: Option<String>,
    /// Explain the query of this file
    #[arg(short = 'f', long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// What to print [default: plan and optimized]
    #[arg(long, value_delimiter = ',', value_name = "LEVELS")]
    show: Vec<Level>,
    /// Show the program as it is after this optimizer pass
    #[arg(long, value_name = "PASS", value_parser = pass_name)]
    after: Option<String>,
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    optimizer: Optimizer,
    #[command(flatten)]
    functions: Functions,
    /// The definition of a program to explain [default: the last]
    #[arg(long, value_name = "NAME")]
    entry: Option<String>,
    /// The language of a program [default: by the end of its name]
    #[arg(long, value_name = "LANGUAGE")]
    language: Option<String>,
    /// A folder of tables, as for `weld sql`; or a program, whose name ends with .weld or as another language's files
    #[arg(value_name = "PATH")]
    path: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum)]
enum Level {
    /// DataFusion's physical plan, with the operators that Weld took
    Plan,
    /// The Weld program, each operator as if it stood alone
    Weld,
    /// The Weld program after optimisation: one loop a pipeline
    Optimized,
    /// How each loop of the optimised program runs, a line a loop
    Loops,
    /// LLVM IR after LLVM's passes
    Llvm,
    /// Machine code
    Assembly,
    /// Where the time of compiling goes: each of the optimizer's passes, each phase of each part of the code
    Timings,
}

pub(crate) fn run(args: Args) -> Result<()> {
    let is_program = |path: &PathBuf| args.language.is_some() || weld_languages::by_file(path).is_some();
    match args.path.iter().chain(&args.file).find(|path| is_program(path)) {
        Some(path) => explain_program(&args, path),
        None => explain_query(&args),
    }
}

impl Args {
    fn levels(&self) -> Vec<Level> {
        match (&self.show[..], &self.after) {
            ([], None) => vec![Level::Plan, Level::Optimized],
            ([], Some(_)) => vec![Level::Optimized],
            (levels, _) => levels.to_vec(),
        }
    }

    /// The program as far as it is asked for; `optimized` is what it becomes in the end.
    fn optimized(&self, program: &Program) -> Program {
        let mut program = program.clone();
        self.optimizer.run(&mut program, self.after.as_deref());
        program
    }
}

fn explain_program(args: &Args, path: &std::path::Path) -> Result<()> {
    let source = program::read(path)?;
    let failed = |diagnostics: Vec<Diagnostic>| program::report(&diagnostics, &source, &path.display().to_string());
    let language = program::language_of(path, args.language.as_deref())?;
    let (entry, options) = (args.entry.as_deref(), weld_frontend::Options::default());
    let function = args.functions.function(language, &source, entry, weld_frontend::Args::Declared, &options);
    let program = function.map_err(failed)?.program;
    let optimized = args.optimized(&program);
    let disabled = FastPath::among(args.optimizer.disabled_passes());
    let options = Options { disabled, cudfs: args.functions.cudfs.clone(), ..Options::default() };
    let compile = || weld_codegen::compile(&optimized, &options).map_err(Failure::new);
    for level in args.levels() {
        match level {
            Level::Plan => {}
            Level::Weld => section("weld", &program.to_string())?,
            Level::Optimized => section(&title(args), &optimized.to_string())?,
            Level::Loops => {
                section("loops", &weld_codegen::loop_plans(&optimized, &options, None).map_err(Failure::new)?)?
            }
            Level::Llvm => section("llvm", &compile()?.llvm_ir())?,
            Level::Assembly => section("assembly", &compile()?.assembly())?,
            Level::Timings => {
                let compiled = compile()?;
                section("timings", &timings(&program, &compiled))?;
            }
        }
    }
    Ok(())
}

fn explain_query(args: &Args) -> Result<()> {
    let text = match (&args.command, &args.file) {
        (Some(text), _) => text.clone(),
        (None, Some(path)) => program::read(path)?,
        (None, None) => return Err(Failure::Usage("give a query with -c or -f, or a .weld file".to_owned())),
    };
    let settings = [("weld.disabled_passes".to_owned(), args.optimizer.disabled_passes().join(","))];
    let runtime = args.source.runtime()?;
    runtime.block_on(async {
        let session = args.source.session(Engine::Weld, &settings, args.path.as_deref()).await?;
        // The code is what is asked for, however few rows there are.
        session.sql("SET weld.compile_min_rows = 0").await?.collect().await?;
        let mut statements = sql::parse(&text)?;
        let Some(query) = statements.pop() else { return Err(Failure::new("there is no query")) };
        for statement in statements {
            // What stands before the query sets it up: SET, CREATE TABLE.
            let plan = session.state().statement_to_plan(statement).await?;
            session.execute_logical_plan(plan).await?.collect().await?;
        }
        let logical = session.state().statement_to_plan(query).await?;
        explain_plan(args, &session, session.state().create_physical_plan(&logical).await?).await
    })
}

async fn explain_plan(args: &Args, session: &SessionContext, plan: Arc<dyn ExecutionPlan>) -> Result<()> {
    let levels = args.levels();
    if levels.iter().any(|level| *level >= Level::Llvm) {
        // The layouts of the columns, which the code depends on, are known when the data arrives.
        let mut rows = execute_stream(plan.clone(), session.task_ctx())?;
        while let Some(batch) = rows.next().await {
            batch?;
        }
    }
    if levels.contains(&Level::Plan) {
        section("plan", &displayable(plan.as_ref()).indent(false).to_string())?;
    }
    let pipelines = weld_datafusion::pipelines(&plan);
    for (index, pipeline) in pipelines.iter().enumerate() {
        let name = |what: &str| format!("{what}, pipeline {} of {}", index + 1, pipelines.len());
        let code = |text: fn(&Compiled) -> String| pipeline.compiled().map(|code| text(&code)).map_err(Failure::new);
        for level in &levels {
            match level {
                Level::Plan => {}
                Level::Weld => {
                    let constants: String = pipeline.constants().iter().map(|c| format!("\n# with {c}")).collect();
                    section(&name("weld"), &format!("{}{constants}", pipeline.program()))?;
                }
                Level::Optimized => section(&name(&title(args)), &args.optimized(pipeline.program()).to_string())?,
                Level::Loops => section(&name("loops"), &pipeline.loop_plans().map_err(Failure::new)?)?,
                Level::Llvm => section(&name("llvm"), &code(Compiled::llvm_ir)?)?,
                Level::Assembly => section(&name("assembly"), &code(Compiled::assembly)?)?,
                Level::Timings => {
                    let compiled = pipeline.compiled().map_err(Failure::new)?;
                    compiled.improve().map_err(Failure::new)?;
                    section(&name("timings"), &timings(pipeline.program(), &compiled))?;
                }
            }
        }
    }
    Ok(())
}

/// What the optimizer and each phase of compiling take, and how much code there is.
fn timings(program: &Program, compiled: &Compiled) -> String {
    let report = opt::optimize(&mut program.clone(), &opt::Config { verify: false, ..opt::Config::default() });
    let mut text = format!("{report}\n");
    for timing in compiled.timings() {
        let ms = |time: std::time::Duration| time.as_secs_f64() * 1e3;
        let Timing { part, passes_level, select_level, emitted, optimized, .. } = &timing;
        text.push_str(&format!(
            "{part}: {} instructions in {} blocks, {} in {} after the passes; milliseconds: emit {:.2}, passes ({passes_level:?}) \
             {:.2}, select ({select_level:?}) {:.2}, link {:.2}\n",
            emitted.instructions,
            emitted.blocks,
            optimized.instructions,
            optimized.blocks,
            ms(timing.emit),
            ms(timing.passes),
            ms(timing.select),
            ms(timing.link),
        ));
    }
    text
}

fn title(args: &Args) -> String {
    args.after.as_ref().map_or("optimized".to_owned(), |pass| format!("after {pass}"))
}

fn section(title: &str, text: &str) -> Result<()> {
    output::print(&format!("== {title}\n{}\n\n", text.trim_end()))
}
