//! Between values of compiled code and those of the interpreter: for tests and tools, not for speed.
//!
//! Dictionaries are converted by programs: their entries come out through `tovec`, and go in through `deserialize`.

use std::any::Any;
use std::sync::Arc;

use weld_core::interp;
use weld_core::ir::{Literal, Names, Param, Program, build};
use weld_core::ty::{ScalarKind, Type};
use weld_core::{RuntimeError, RuntimeErrorKind, diag::Span};
use weld_runtime::{Context, StringView};

use crate::compiled::compile;
use crate::layout;
use crate::options::{OptLevel, Options};
use crate::value::{Value, literal};

impl Value {
    /// The same value for the interpreter.
    pub fn to_interp(&self) -> Result<interp::Value, RuntimeError> {
        let mut reader = Reader { owner: self, words: self.words() };
        reader.flat(self.ty())
    }

    /// The value of a type from one of the interpreter.
    pub fn from_interp(ty: &Type, value: &interp::Value) -> Result<Value, RuntimeError> {
        if !value.has_type(ty) {
            return Err(failure(format!("a value is not of type {ty}")));
        }
        let mut writer = Writer::default();
        let mut words = Vec::with_capacity(layout::flat_words(ty));
        writer.flat(ty, value, &mut words)?;
        let Writer { blocks, mut owners } = writer;
        owners.push(Arc::new(blocks));
        // SAFETY: the words are the value in flat form; the blocks hold all that they refer to.
        Ok(unsafe { Value::from_flat(ty.clone(), words, owners) })
    }
}

fn failure(message: impl Into<String>) -> RuntimeError {
    RuntimeError::new(RuntimeErrorKind::Internal, Span::NONE, message)
}

struct Reader<'a> {
    owner: &'a Value,
    words: &'a [u64],
}

impl Reader<'_> {
    fn next(&mut self) -> Result<u64, RuntimeError> {
        let (&word, rest) = self.words.split_first().ok_or_else(|| failure("too few words"))?;
        self.words = rest;
        Ok(word)
    }

    fn flat(&mut self, ty: &Type) -> Result<interp::Value, RuntimeError> {
        Ok(match ty {
            Type::Scalar(ScalarKind::I128) => {
                let words = [self.next()?, self.next()?];
                interp::Value::Scalar(literal(ScalarKind::I128, &words))
            }
            Type::Scalar(kind) => interp::Value::Scalar(literal(*kind, &[self.next()?])),
            Type::Struct(fields) => interp::Value::structure(
                fields.iter().map(|field| self.flat(field)).collect::<Result<Vec<_>, RuntimeError>>()?,
            ),
            Type::Vec(element) => {
                let len = self.next()? as usize;
                let columns: Vec<u64> =
                    layout::columns(element).iter().map(|_| self.next()).collect::<Result<_, _>>()?;
                self.elements(element, len, &columns)?
            }
            Type::Dict(..) => self.dict(ty)?,
            Type::Simd(_) | Type::Builder(_) => return Err(failure("a value without a flat form")),
        })
    }

    fn elements(&self, element: &Type, len: usize, columns: &[u64]) -> Result<interp::Value, RuntimeError> {
        let items: Vec<interp::Value> =
            (0..len).map(|i| self.element(element, &mut columns.iter().copied(), i)).collect::<Result<_, _>>()?;
        Ok(interp::Value::vec(items))
    }

    fn element(
        &self,
        ty: &Type,
        columns: &mut impl Iterator<Item = u64>,
        index: usize,
    ) -> Result<interp::Value, RuntimeError> {
        if let Type::Struct(fields) = ty {
            let mut values = Vec::with_capacity(fields.len());
            for field in fields.iter() {
                values.push(self.element(field, columns, index)?);
            }
            return Ok(interp::Value::structure(values));
        }
        let column = columns.next().ok_or_else(|| failure("too few columns"))?;
        self.row(ty, column + index as u64 * layout::row(ty).size)
    }

    /// A value in row form.
    fn row(&self, ty: &Type, address: u64) -> Result<interp::Value, RuntimeError> {
        // SAFETY: the value's owners keep its rows alive; each is read within its size, as its type says.
        let word = |i: u64| unsafe { ((address + 8 * i) as *const u64).read_unaligned() };
        Ok(match ty {
            Type::Scalar(kind) => {
                let mut words = [0u64; 2];
                // SAFETY: as above; no scalar is larger than two words.
                unsafe {
                    std::ptr::copy_nonoverlapping(address as *const u8, words.as_mut_ptr().cast(), kind.bytes());
                }
                interp::Value::Scalar(literal(*kind, &words))
            }
            Type::Struct(fields) => {
                let mut values = Vec::with_capacity(fields.len());
                for (field, offset) in fields.iter().zip(layout::field_offsets(fields)) {
                    values.push(self.row(field, address + offset)?);
                }
                interp::Value::structure(values)
            }
            Type::Vec(element) if ty.is_bytes() => {
                // SAFETY: as above; a row of bytes is a view.
                let view = unsafe { (address as *const StringView).read_unaligned() };
                // SAFETY: as above.
                let bytes = unsafe { view.as_slice() };
                let signed = **element == Type::I8;
                interp::Value::vec(bytes.iter().map(|&byte| {
                    interp::Value::Scalar(if signed { Literal::I8(byte as i8) } else { Literal::U8(byte) })
                }))
            }
            Type::Vec(element) => {
                let columns: Vec<u64> = (1..=layout::columns(element).len() as u64).map(word).collect();
                self.elements(element, word(0) as usize, &columns)?
            }
            Type::Dict(..) => Reader { owner: self.owner, words: &[word(0)] }.flat(ty)?,
            Type::Simd(_) | Type::Builder(_) => return Err(failure("a value without a row form")),
        })
    }

    fn dict(&mut self, ty: &Type) -> Result<interp::Value, RuntimeError> {
        let word = self.next()?;
        if word == 0 {
            // The zero value, of a missed `optlookup`.
            return Ok(interp::Value::dict([]));
        }
        // SAFETY: the word is the dictionary in flat form, and its owners come along.
        let table = unsafe { Value::from_flat(ty.clone(), vec![word], self.owner.owners().iter().cloned()) };
        let mut names = Names::default();
        let d = names.fresh("d");
        let body = build::to_vec(build::var(d, ty.clone()));
        let entries = run(Program { params: vec![param(d, ty)], body, names }, table)?;
        let interp::Value::Vec(entries) = entries.to_interp()? else { return Err(failure("entries are a vector")) };
        let pairs = entries.iter().filter_map(|entry| match entry {
            interp::Value::Struct(parts) => Some((parts[0].clone(), parts[1].clone())),
            _ => None,
        });
        Ok(interp::Value::dict(pairs))
    }
}

fn param(sym: weld_core::ir::Sym, ty: &Type) -> Param {
    Param { sym, ty: ty.clone(), stream: false, known: None }
}

/// Compiles a program of one parameter and runs it.
fn run(program: Program, arg: Value) -> Result<Value, RuntimeError> {
    let options = Options { level: OptLevel::O0, ..Options::default() };
    let compiled = compile(&program, &options).map_err(|error| failure(error.to_string()))?;
    compiled.run(&Arc::new(Context::unlimited()), &[arg])
}

/// Memory that a converted value refers to.
#[derive(Default)]
struct Writer {
    blocks: Vec<Vec<u128>>,
    owners: Vec<Arc<dyn Any + Send + Sync>>,
}

impl Writer {
    fn allocate(&mut self, bytes: usize) -> *mut u8 {
        self.blocks.push(vec![0; bytes.div_ceil(16).max(1)]);
        // Just pushed.
        self.blocks.last_mut().map_or(std::ptr::null_mut(), |block| block.as_mut_ptr().cast())
    }

    fn flat(&mut self, ty: &Type, value: &interp::Value, words: &mut Vec<u64>) -> Result<(), RuntimeError> {
        match (ty, value) {
            (_, interp::Value::Scalar(scalar)) => {
                let bits = scalar.bits();
                words.push(bits as u64);
                if scalar.kind() == ScalarKind::I128 {
                    words.push((bits >> 64) as u64);
                }
            }
            (Type::Struct(types), interp::Value::Struct(fields)) => {
                for (ty, field) in types.iter().zip(fields.iter()) {
                    self.flat(ty, field, words)?;
                }
            }
            (Type::Vec(element), interp::Value::Vec(items)) => {
                words.push(items.len() as u64);
                words.extend(self.columns(element, items)?);
            }
            (Type::Dict(..), interp::Value::Dict(_)) => words.push(self.dict(ty, value)?),
            _ => return Err(failure(format!("a value of type {ty} cannot be an argument"))),
        }
        Ok(())
    }

    fn columns(&mut self, element: &Type, items: &[interp::Value]) -> Result<Vec<u64>, RuntimeError> {
        let columns: Vec<u64> = layout::columns(element)
            .iter()
            .map(|column| self.allocate(items.len() * layout::row(column).size as usize) as u64)
            .collect();
        for (i, item) in items.iter().enumerate() {
            self.element(element, item, &mut columns.iter().copied(), i)?;
        }
        Ok(columns)
    }

    fn element(
        &mut self,
        ty: &Type,
        item: &interp::Value,
        columns: &mut impl Iterator<Item = u64>,
        index: usize,
    ) -> Result<(), RuntimeError> {
        if let (Type::Struct(types), interp::Value::Struct(fields)) = (ty, item) {
            for (ty, field) in types.iter().zip(fields.iter()) {
                self.element(ty, field, columns, index)?;
            }
            return Ok(());
        }
        let column = columns.next().ok_or_else(|| failure("too few columns"))?;
        self.row(ty, item, column + index as u64 * layout::row(ty).size)
    }

    fn row(&mut self, ty: &Type, value: &interp::Value, address: u64) -> Result<(), RuntimeError> {
        let words: Vec<u64> = match (ty, value) {
            (Type::Scalar(kind), interp::Value::Scalar(scalar)) => {
                let bits = scalar.bits().to_le_bytes();
                // SAFETY: the row has the bytes of its type.
                unsafe { std::ptr::copy_nonoverlapping(bits.as_ptr(), address as *mut u8, kind.bytes()) };
                return Ok(());
            }
            (Type::Struct(types), interp::Value::Struct(fields)) => {
                for ((ty, field), offset) in types.iter().zip(fields.iter()).zip(layout::field_offsets(types)) {
                    self.row(ty, field, address + offset)?;
                }
                return Ok(());
            }
            (Type::Vec(_), value) if ty.is_bytes() => {
                let bytes = value.to_bytes().ok_or_else(|| failure("bytes were expected"))?;
                let copy = self.allocate(bytes.len());
                // SAFETY: the copy has room for the bytes.
                let copy = unsafe {
                    std::ptr::copy_nonoverlapping(bytes.as_ptr(), copy, bytes.len());
                    std::slice::from_raw_parts(copy, bytes.len())
                };
                let view = StringView::new(copy).ok_or_else(|| failure("a string of more than 4 GiB"))?;
                // SAFETY: a row of bytes is a view.
                unsafe { (address as *mut StringView).write_unaligned(view) };
                return Ok(());
            }
            _ => {
                let mut words = Vec::new();
                self.flat(ty, value, &mut words)?;
                words
            }
        };
        // SAFETY: vectors and dictionaries have the same words in row form as in flat form.
        unsafe { std::ptr::copy_nonoverlapping(words.as_ptr(), address as *mut u64, words.len()) };
        Ok(())
    }

    /// Builds a dictionary with a program that reads it from its serialized form: any key and value will do.
    fn dict(&mut self, ty: &Type, value: &interp::Value) -> Result<u64, RuntimeError> {
        let bytes = interp::serialize::serialize(value, ty).ok_or_else(|| failure("a dictionary was expected"))?;
        let bytes: Vec<i8> = bytes.into_iter().map(|byte| byte as i8).collect();
        let mut names = Names::default();
        let b = names.fresh("b");
        let bytes_ty = Type::vec(Type::I8);
        let body = build::deserialize(ty.clone(), build::var(b, bytes_ty.clone()));
        let table = run(Program { params: vec![param(b, &bytes_ty)], body, names }, Value::vector(bytes))?;
        let word = table.words()[0];
        self.owners.extend(table.owners().iter().cloned());
        Ok(word)
    }
}
