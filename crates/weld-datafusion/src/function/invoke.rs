//! Calls outside compiled pipelines: in sorts, in windows, where expressions are folded, and with
//! `weld.enabled = false`.
//!
//! The same lowering as in a pipeline, compiled once for each combination of types and nullable arguments, over the
//! arguments as a batch of columns. A call of constants, which the planner evaluates, is stopped after some seconds: an
//! endless function does not hold it up. What a call allocates is asked of the memory pool of the session that made the
//! function, since a call is not told its query.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak, mpsc};
use std::time::Duration;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, new_empty_array};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{DataFusionError, Result, ScalarValue, exec_datafusion_err};
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};
use weld_arrow::{BatchColumns, Results, string_buffers_of};
use weld_frontend::Source;
use weld_runtime::Context;

use super::call::RowKernel;
use super::{WeldFunction, call, nested};
use crate::code_cache::{Code, CodeCache, Settings};
use crate::config::WeldOptions;
use crate::memory::{Pressure, QueryMemory, located};
use crate::stoppable;

/// How long a call of constants may take.
const CONSTANT_SECONDS: u64 = 5;

/// So many calls of constants that took too long are remembered.
const STOPPED_MAX: usize = 100;

/// The code of a function for calls outside pipelines. Dropped with the function, it has the session's cache let go of
/// code of pipelines that call the function.
#[derive(Debug)]
pub(super) struct Codes {
    source: Arc<Source>,
    cache: Weak<CodeCache>,
    pool: Arc<dyn MemoryPool>,
    compiled: Mutex<HashMap<(Arguments, Settings), Arc<Compiled>>>,
    /// Constants for which the function took too long: the planner tries again and again.
    stopped: Mutex<HashSet<Vec<ScalarValue>>>,
}

impl Codes {
    /// Of the function with this text, none yet.
    pub(super) fn new(source: Arc<Source>, cache: Weak<CodeCache>, pool: Arc<dyn MemoryPool>) -> Codes {
        Codes { source, cache, pool, compiled: Mutex::default(), stopped: Mutex::default() }
    }
}

impl Drop for Codes {
    fn drop(&mut self) {
        if let Some(cache) = self.cache.upgrade() {
            cache.forget(&self.source);
        }
    }
}

/// What code is made for: the arguments' types, and whether they may be null.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Arguments {
    types: Vec<DataType>,
    nullable: Vec<bool>,
}

#[derive(Debug)]
struct Compiled {
    kernel: RowKernel,
    schema: SchemaRef,
    code: Code,
}

pub(super) fn invoke(function: &WeldFunction, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
    let constants: Option<Vec<ScalarValue>> = args.args.iter().map(constant).collect();
    let rows = if constants.is_some() { 1 } else { args.number_rows };
    let mut arrays = Vec::with_capacity(args.args.len());
    for (arg, declared) in args.args.iter().zip(function.params()) {
        nested::add_columns(&nested::converted(&arg.to_array(rows)?, declared)?, function.name(), &mut arrays)?;
    }
    let settings = Settings::of(&WeldOptions::of(&args.config_options));
    let Some(constants) = constants else {
        return Ok(ColumnarValue::Array(run(function, arrays, rows, settings, stoppable::flag())?));
    };
    let stopped = || function.code.stopped.lock().unwrap_or_else(PoisonError::into_inner);
    if stopped().contains(&constants) {
        return Err(too_long(function));
    }
    match with_limit(|cancel| run(function, arrays, rows, settings, cancel)) {
        Some(result) => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result?, 0)?)),
        None => {
            let mut stopped = stopped();
            if stopped.len() < STOPPED_MAX {
                stopped.insert(constants);
            }
            Err(too_long(function))
        }
    }
}

fn constant(arg: &ColumnarValue) -> Option<ScalarValue> {
    match arg {
        ColumnarValue::Scalar(value) => Some(value.clone()),
        ColumnarValue::Array(_) => None,
    }
}

fn too_long(function: &WeldFunction) -> DataFusionError {
    let name = function.name();
    exec_datafusion_err!("{name}: a call with constants was stopped after {CONSTANT_SECONDS} s")
}

fn run(
    function: &WeldFunction,
    arrays: Vec<ArrayRef>,
    rows: usize,
    settings: Settings,
    cancel: Arc<AtomicBool>,
) -> Result<ArrayRef> {
    if rows == 0 {
        return Ok(new_empty_array(function.result()));
    }
    let arguments = Arguments {
        types: arrays.iter().map(|array| array.data_type().clone()).collect(),
        nullable: arrays.iter().map(|array| array.null_count() > 0).collect(),
    };
    let compiled = compiled(function, arguments, settings)?;
    let arrays = match arrays.is_empty() {
        true => vec![Arc::new(BooleanArray::from(vec![false; rows])) as ArrayRef],
        false => arrays,
    };
    let inputs: Vec<usize> = (0..arrays.len()).collect();
    let batch = RecordBatch::try_new(Arc::clone(&compiled.schema), arrays)?;
    let columns = BatchColumns::new(&batch, &inputs)?;
    let memory = QueryMemory::of(&function.code.pool, function.name(), Pressure::Fails);
    let context = Arc::new(Context::new(Arc::clone(&memory) as _, cancel));
    let checked = |error| located(error, &compiled.kernel.source);
    let mut stream = compiled.code.compiled.stream(context, Vec::new()).map_err(checked)?;
    stream.process(&columns.chunk()?).map_err(checked)?;
    // Rows of lists come out at the end.
    let made = match stream.rows().map(|rows| rows.value().clone()) {
        Some(rows) => rows,
        None => stream.finish().map_err(checked)?,
    };
    let mut strings: Vec<Buffer> = Vec::new();
    string_buffers_of(columns.arrays(), &mut strings);
    strings.sort_by_key(|buffer| (buffer.as_ptr() as usize, std::cmp::Reverse(buffer.len())));
    strings.dedup_by_key(|buffer| buffer.as_ptr());
    let kernel = &compiled.kernel;
    let made = Results { value: &made, leaves: &kernel.leaves, nullable: kernel.nullable, strings };
    let made = made.array(function.result(), rows)?;
    memory.release();
    Ok(made)
}

fn compiled(function: &WeldFunction, arguments: Arguments, settings: Settings) -> Result<Arc<Compiled>> {
    let key = (arguments, settings);
    let known = || function.code.compiled.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(compiled) = known().get(&key) {
        return Ok(Arc::clone(compiled));
    }
    let name = function.name();
    let kernel = call::kernel(function, &key.0.types, &key.0.nullable)
        .map_err(|unsupported| exec_datafusion_err!("{name}: {unsupported}"))?;
    let code = key.1.compile(&kernel.program, 0, None).map_err(|error| exec_datafusion_err!("{name}: {error}"))?;
    let schema = Arc::new(kernel.schema.clone());
    let compiled = Arc::new(Compiled { kernel, schema, code });
    known().insert(key, Arc::clone(&compiled));
    Ok(compiled)
}

/// Runs with a flag that is raised when the time is up; `None` if it was.
fn with_limit<T>(run: impl FnOnce(Arc<AtomicBool>) -> Result<T>) -> Option<Result<T>> {
    let cancel = Arc::new(AtomicBool::new(false));
    let result = std::thread::scope(|scope| {
        let (done, is_done) = mpsc::channel::<()>();
        let alarm = Arc::clone(&cancel);
        scope.spawn(move || {
            // The sender is dropped when the run ends.
            if let Err(mpsc::RecvTimeoutError::Timeout) = is_done.recv_timeout(Duration::from_secs(CONSTANT_SECONDS)) {
                alarm.store(true, Ordering::Relaxed);
            }
        });
        let result = run(Arc::clone(&cancel));
        drop(done);
        result
    });
    let is_stopped = result.is_err() && cancel.load(Ordering::Relaxed);
    (!is_stopped).then_some(result)
}
