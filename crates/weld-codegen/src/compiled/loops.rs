//! How the loops of a program run, as text.

use std::cell::RefCell;

use weld_core::ir::Program;
use weld_core::ty::Type;

use super::Compiled;
use super::kernel::Part;
use crate::block::Unit;
use crate::chunk::{ColumnLayout, Layout};
use crate::error::CompileError;
use crate::options::Options;
use crate::target;
use crate::values::stream::nullable;

/// How the loops of a program run: a line for each loop, in the order in which they are emitted, under the name of the
/// function that it is in, and indented as deep as it is in other loops.
///
/// ```text
/// process:
///   appender[i32]  selection: 1 condition by strips of 4096, indices compressed 16 at a time
/// ```
///
/// The loop over a stream is that for chunks of `layouts`; if there are none, for columns that are stored as their
/// types say, with a validity if they may have nulls. Only emits, and does not generate code.
pub fn loop_plans(
    program: &Program,
    options: &Options,
    layouts: Option<&[ColumnLayout]>,
) -> Result<String, CompileError> {
    let compiled = Compiled::new(program, options, None)?;
    let stored;
    let part = match (&compiled.stream, layouts) {
        (None, _) => Part::Whole,
        (Some(_), Some(layouts)) => Part::All(layouts),
        (Some(stream), None) => {
            let param = &program.params[stream.param];
            stored = as_typed(&param.ty);
            match &stored {
                Some(layouts) => Part::All(layouts),
                None => Part::Ends,
            }
        }
    };
    let ll = inkwell::context::Context::create();
    let mut unit = Unit::new(&ll, "weld", target::machine_of(options.cpu));
    unit.loops = Some(RefCell::default());
    compiled.fill(&mut unit, part, "")?;
    let mut text = String::new();
    let mut last = None;
    for (function, line) in unit.loops.take().into_iter().flat_map(RefCell::into_inner) {
        if last.as_ref() != Some(&function) {
            text.push_str(&format!("{function}:\n"));
            last = Some(function);
        }
        text.push_str(&format!("  {line}\n"));
    }
    Ok(text)
}

/// The layouts of the columns of a stream that is stored as its type says, if there are such.
fn as_typed(stream: &Type) -> Option<Vec<ColumnLayout>> {
    let element = stream.element()?;
    let fields = match element {
        Type::Struct(fields) => &fields[..],
        scalar => std::slice::from_ref(scalar),
    };
    let column = |ty: &Type| {
        let value = nullable(ty);
        let layout = match value.unwrap_or(ty) {
            Type::Scalar(kind) => Layout::Fixed(*kind),
            ty if ty.is_bytes() => Layout::Utf8View,
            _ => return None,
        };
        Some(ColumnLayout { layout, validity: value.is_some() })
    };
    fields.iter().map(column).collect()
}
