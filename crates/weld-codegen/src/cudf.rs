//! C functions that programs call with `cudf`: registered by the host, or loaded from a shared library.
//!
//! ```
//! use weld_codegen::{Cudf, ForeignHost};
//!
//! extern "C" fn add_five(x: &i64, result: &mut i64) {
//!     *result = x.wrapping_add(5);
//! }
//! let functions = [Cudf::unary("add_five", add_five)];
//! let front = weld_core::Frontend { cudfs: functions.iter().map(Cudf::declaration).collect() };
//! assert!(front.parse_program("|x: i64| cudf[add_five,i64](x)").is_ok());
//! // Compiled code gets them through `Options::cudfs`, the interpreter through a `ForeignHost`.
//! assert!(ForeignHost::new(&functions).is_ok());
//! ```

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::marker::PhantomData;
use std::sync::Arc;

use weld_core::interp::{Host, Value};
use weld_core::ty::Type;
use weld_core::{Frontend, Signature, parse_type};
use weld_runtime::Context;

use crate::{CompileError, Compiled, OptLevel, Options};

/// A C function `void name(const A*, .., R*)` under the name that programs call it by.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Cudf {
    pub(crate) name: String,
    pub(crate) address: usize,
    params: Vec<Type>,
    result: Type,
}

impl Cudf {
    /// # Safety
    /// The function at the address takes pointers to arguments of the signature's types, then one to its result, and
    /// stays where it is.
    pub unsafe fn new(name: impl Into<String>, signature: Signature, address: usize) -> Cudf {
        Cudf { name: name.into(), address, params: signature.params, result: signature.result }
    }

    /// A function of one argument.
    pub fn unary<A: CValue, R: CValue>(name: impl Into<String>, function: extern "C" fn(&A, &mut R)) -> Cudf {
        let signature = Signature { params: vec![A::ty()], result: R::ty() };
        // SAFETY: references are pointers, and the types look as their Weld types do in C.
        unsafe { Cudf::new(name, signature, function as *const () as usize) }
    }

    /// Loads the function that `NAME(T, ..)->R=LIBRARY` declares. The library stays loaded. That the function is as
    /// declared cannot be checked: whoever writes the declaration vouches for it, as for the library.
    pub fn load(declaration: &str) -> Result<Cudf, String> {
        let (name, signature, library) = parse_declaration(declaration)?;
        let address = symbol(library, name)?;
        // SAFETY: the declaration is the user's word for it; libraries are never unloaded.
        let cudf = unsafe { Cudf::new(name, signature, address) };
        ForeignHost::new(std::slice::from_ref(&cudf)).map_err(|error| error.to_string())?;
        Ok(cudf)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the front end has to know.
    pub fn declaration(&self) -> (String, Signature) {
        (self.name.clone(), Signature { params: self.params.clone(), result: self.result.clone() })
    }
}

/// A type of which Weld and C have the same idea.
///
/// # Safety
/// It looks in memory as the docs of `cudf` say of its Weld type.
pub unsafe trait CValue {
    fn ty() -> Type;
}

macro_rules! c_values {
    ($($rust:ty: $weld:ident),*) => {
        $(
            // SAFETY: scalars are the same in C.
            unsafe impl CValue for $rust {
                fn ty() -> Type {
                    Type::$weld
                }
            }
        )*
    };
}
c_values!(i32: I32, i64: I64, f64: F64);

/// A vector as C functions get it.
#[repr(C)]
#[derive(Debug)]
pub struct CVec<'a, T> {
    data: *const T,
    len: i64,
    borrowed: PhantomData<&'a [T]>,
}

impl<T: 'static> CVec<'_, T> {
    pub const EMPTY: CVec<'static, T> = CVec { data: std::ptr::null(), len: 0, borrowed: PhantomData };

    pub fn as_slice(&self) -> &[T] {
        if self.len <= 0 {
            return &[];
        }
        // SAFETY: only compiled code makes these, of vectors.
        unsafe { std::slice::from_raw_parts(self.data, self.len as usize) }
    }
}

// SAFETY: `{data, length}`.
unsafe impl<T: CValue + 'static> CValue for CVec<'_, T> {
    fn ty() -> Type {
        Type::vec(T::ty())
    }
}

/// The interpreter's way to C functions: for each a compiled program that only calls it.
pub struct ForeignHost {
    calls: BTreeMap<String, Arc<Compiled>>,
}

impl ForeignHost {
    pub fn new(functions: &[Cudf]) -> Result<ForeignHost, CompileError> {
        let calls = functions.iter().map(|cudf| Ok((cudf.name.clone(), call_of(cudf)?)));
        Ok(ForeignHost { calls: calls.collect::<Result<_, CompileError>>()? })
    }
}

impl Host for ForeignHost {
    fn call(&self, name: &str, args: &[Value], _result: &Type) -> Result<Value, String> {
        let call = self.calls.get(name).ok_or_else(|| format!("no function `{name}` is registered"))?;
        let params = call.program().params.iter();
        let args: Result<Vec<_>, _> =
            params.zip(args).map(|(param, arg)| crate::Value::from_interp(&param.ty, arg)).collect();
        let result = args.and_then(|args| call.run(&Arc::new(Context::unlimited()), &args));
        result.and_then(|value| value.to_interp()).map_err(|error| error.message)
    }
}

/// `|a0: T0, ..| cudf[name,R](a0, ..)`, compiled.
fn call_of(cudf: &Cudf) -> Result<Arc<Compiled>, CompileError> {
    let params: Vec<String> = cudf.params.iter().enumerate().map(|(i, ty)| format!("a{i}: {ty}")).collect();
    let args: Vec<String> = (0..cudf.params.len()).map(|i| format!("a{i}")).collect();
    let text = format!("|{}| cudf[{},{}]({})", params.join(", "), cudf.name, cudf.result, args.join(", "));
    let front = Frontend { cudfs: [cudf.declaration()].into_iter().collect() };
    let program = front.parse_program(&text).map_err(|errors| {
        let first = errors.first().map_or_else(String::new, |error| error.message.clone());
        CompileError::unsupported(format!("the C function `{}`: {first}", cudf.name), Default::default())
    })?;
    let options = Options { level: OptLevel::O0, cudfs: vec![cudf.clone()], ..Options::default() };
    crate::compile(&program, &options)
}

/// `NAME(T, ..)->R=LIBRARY`.
fn parse_declaration(text: &str) -> Result<(&str, Signature, &str), String> {
    let form = || "expected NAME(T, ..)->R=LIBRARY, such as add_five(i64)->i64=libfive.so".to_string();
    let (function, library) = text.split_once('=').ok_or_else(form)?;
    let (head, result) = function.rsplit_once("->").ok_or_else(form)?;
    let (name, params) = head.split_once('(').ok_or_else(form)?;
    let params = params.trim_end().strip_suffix(')').ok_or_else(form)?;
    let (name, library) = (name.trim(), library.trim());
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(is_name) || name.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(format!("`{name}` is no name of a C function; {}", form()));
    }
    if library.is_empty() {
        return Err(form());
    }
    let ty = |text: &str| {
        let wrong = |why: String| format!("`{}` is no type of a C function: {why}", text.trim());
        parse_type(text).map_err(|errors| wrong(errors.first().map_or_else(form, |e| e.message.clone())))
    };
    let params = parts(params).into_iter().map(ty).collect::<Result<_, _>>()?;
    Ok((name, Signature { params, result: ty(result)? }, library))
}

/// What stands between the commas that are in no brackets.
fn parts(text: &str) -> Vec<&str> {
    if text.trim().is_empty() {
        return Vec::new();
    }
    let mut depth = 0i32;
    let between = |c: char| {
        depth += match c {
            '[' | '{' | '(' => 1,
            ']' | '}' | ')' => -1,
            _ => 0,
        };
        c == ',' && depth == 0
    };
    text.split(between).collect()
}

/// The address of a symbol of a library: a file, or a name that the system's loader knows.
fn symbol(library: &str, name: &str) -> Result<usize, String> {
    // A name without a slash is not looked for in the current folder by the loader.
    let path = std::fs::canonicalize(library).unwrap_or_else(|_| library.into());
    let path = CString::new(path.into_os_string().into_encoded_bytes()).map_err(|error| error.to_string())?;
    let c_name = CString::new(name).map_err(|error| error.to_string())?;
    // SAFETY: both strings end with a zero byte; the handle is used while the library is loaded, which is for ever.
    let address = unsafe {
        let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        if handle.is_null() {
            return Err(format!("cannot load {library}: {}", loader_error()));
        }
        libc::dlsym(handle, c_name.as_ptr())
    };
    if address.is_null() {
        return Err(format!("{library} has no function `{name}`"));
    }
    Ok(address as usize)
}

fn loader_error() -> String {
    // SAFETY: the loader's message is a C string of this thread's, until its next call.
    unsafe {
        let message = libc::dlerror();
        if message.is_null() { String::new() } else { CStr::from_ptr(message).to_string_lossy().into_owned() }
    }
}

impl std::fmt::Debug for ForeignHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.calls.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations() {
        let (name, signature, library) =
            parse_declaration("f(vec[i64], {i32,f64}) -> dict[i64,i64] = lib/x.so").expect("it is well formed");
        assert_eq!((name, library, signature.params.len()), ("f", "lib/x.so", 2));
        assert_eq!(parse_declaration("f()->i64=x").map(|(_, signature, _)| signature.params), Ok(vec![]));
        for wrong in ["", "f", "f(i64)->i64", "f(i64)=x", "f i64->i64=x", "f(i6)->i64=x", "3(i64)->i64=x", "f()->i64="]
        {
            assert!(Cudf::load(wrong).is_err(), "{wrong}");
        }
        let missing = Cudf::load("f(i64)->i64=no-such-library.so").expect_err("there is no such library");
        assert!(missing.starts_with("cannot load no-such-library.so"), "{missing}");
        let missing = Cudf::load("no_such_function(i64)->i64=libc.so.6").expect_err("there is no such function");
        assert_eq!(missing, "libc.so.6 has no function `no_such_function`");
    }
}
