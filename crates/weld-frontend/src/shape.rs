//! How the values of a language lie in Weld.

use weld_core::ty::{ScalarKind, Type};

use crate::DataType;

/// How a value lies in Weld, and so how it is read from and written to JSON and columns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Shape {
    /// No value: `null`. A `bool` in Weld, either one.
    Void,
    /// A value of a Weld type as Weld has it: scalars, and whatever programs in Weld's own language take and give.
    Plain(Type),
    /// A string: UTF-8 in a `vec[u8]`.
    Text,
    /// A `vec` of values.
    List(Box<Shape>),
    /// Flat, row-major data: [`Array::ty`].
    Array(Array),
    /// A struct without names: a list in JSON.
    Tuple(Vec<Shape>),
    /// A struct whose fields have names: an object in JSON.
    Record(Vec<(String, Shape)>),
}

/// Rectangular data of one element type, in row-major order. In Weld `vec[T]` where no size is open or the rank is 1;
/// else `{vec[T], i64, ..}` with an `i64` for each open size, outermost first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Array {
    /// What the data consists of.
    pub element: ScalarKind,
    /// Outermost first; none only in a tensor of one cell. `None`: open, it comes with the value.
    pub sizes: Vec<Option<u64>>,
    /// What the axes are, which decides how the value is written in JSON.
    pub axes: Axes,
}

/// What the axes of an array are; this is how it is written in JSON.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "what a variant says of itself names its fields")]
pub enum Axes {
    /// Nested lists.
    Plain,
    /// A field: an object with `data`.
    Field,
    /// A tensor: an object with `batch`, `output`, `input`, `data`. So many of the sizes are batch axes, then output
    /// axes; the others are input axes. `labels` has an entry for each axis, or none.
    Tensor { batch: usize, output: usize, labels: Vec<Option<String>> },
}

impl Array {
    /// Of these sizes, outermost first, with axes that are nothing but nested lists. `None` is an open size.
    pub fn plain(element: ScalarKind, sizes: impl IntoIterator<Item = Option<u64>>) -> Array {
        Array { element, sizes: sizes.into_iter().collect(), axes: Axes::Plain }
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.sizes.len()
    }

    /// The number of elements, where all sizes are known. `None` also where it is beyond 64 bits.
    pub fn elements(&self) -> Option<u64> {
        self.sizes.iter().try_fold(1u64, |product, size| product.checked_mul((*size)?))
    }

    /// Whether the value is a struct of the data and the open sizes.
    pub fn carries_sizes(&self) -> bool {
        self.rank() > 1 && self.sizes.contains(&None)
    }

    /// The indices of the axes whose sizes stand in the struct, in the order of its fields from 1 on.
    pub fn carried(&self) -> Vec<usize> {
        let open = |axis: &usize| self.sizes[*axis].is_none();
        if self.carries_sizes() { (0..self.rank()).filter(open).collect() } else { Vec::new() }
    }

    /// The Weld type.
    pub fn ty(&self) -> Type {
        let data = Type::vec(Type::Scalar(self.element));
        match self.carried().len() {
            0 => data,
            open => Type::structure(std::iter::once(data).chain(std::iter::repeat_n(Type::I64, open))),
        }
    }
}

impl Shape {
    /// A `bool`.
    pub const BOOL: Shape = Shape::Plain(Type::BOOL);
    /// An `i32`.
    pub const I32: Shape = Shape::Plain(Type::I32);
    /// An `i64`.
    pub const I64: Shape = Shape::Plain(Type::I64);
    /// An `f32`.
    pub const F32: Shape = Shape::Plain(Type::F32);
    /// An `f64`.
    pub const F64: Shape = Shape::Plain(Type::F64);

    /// A scalar of that kind.
    pub fn scalar(kind: ScalarKind) -> Shape {
        Shape::Plain(Type::Scalar(kind))
    }

    /// Nested lists in JSON, of these sizes; a scalar where there are none.
    pub fn array(element: ScalarKind, sizes: impl IntoIterator<Item = Option<u64>>) -> Shape {
        let array = Array::plain(element, sizes);
        if array.sizes.is_empty() { Shape::scalar(element) } else { Shape::Array(array) }
    }

    /// The Weld type of the values.
    pub fn ty(&self) -> Type {
        match self {
            Shape::Void => Type::BOOL,
            Shape::Plain(ty) => ty.clone(),
            Shape::Text => Type::vec(Type::U8),
            Shape::List(element) => Type::vec(element.ty()),
            Shape::Array(array) => array.ty(),
            Shape::Tuple(parts) => Type::structure(parts.iter().map(Shape::ty)),
            Shape::Record(fields) => Type::structure(fields.iter().map(|(_, shape)| shape.ty())),
        }
    }

    /// Whether columns of the type can hold the values and values of the type can be passed, by nesting and element
    /// types. Sizes that one of the two leaves open are checked with each value. Else what is found and expected.
    pub fn fits(&self, ty: &DataType) -> Result<(), String> {
        let wrong = || Err(format!("the type is {ty}, the function has {}", self.described()));
        match (self, ty) {
            (Shape::Plain(Type::Scalar(kind)), DataType::Scalar(declared)) if kind == declared => Ok(()),
            (Shape::Plain(Type::Vec(_)), DataType::List(_) | DataType::FixedList(..)) => {
                Shape::of_plain(self).map_or_else(wrong, |shape| shape.fits(ty))
            }
            (Shape::Plain(Type::Struct(_)), DataType::Struct(_)) => {
                Shape::of_plain(self).map_or_else(wrong, |shape| shape.fits(ty))
            }
            (Shape::Plain(plain), DataType::Text) if plain.is_bytes() => Ok(()),
            (Shape::Text, DataType::Text) => Ok(()),
            (Shape::List(inner), DataType::List(element) | DataType::FixedList(element, _)) => inner.fits(element),
            (Shape::Array(array), _) => match ty.as_array() {
                Some((element, sizes)) if element == array.element && array.agrees(&sizes) => Ok(()),
                _ => wrong(),
            },
            (Shape::Tuple(parts), DataType::Struct(fields)) if parts.len() == fields.len() => {
                parts.iter().zip(fields).try_for_each(|(part, (_, ty))| part.fits(ty))
            }
            (Shape::Record(parts), DataType::Struct(fields)) if parts.len() == fields.len() => parts
                .iter()
                .zip(fields)
                .try_for_each(|((name, part), (field, ty))| match name.eq_ignore_ascii_case(field) {
                    true => part.fits(ty),
                    false => Err(format!("the field is called `{field}`, the function has `{name}`")),
                }),
            _ => wrong(),
        }
    }

    /// A vector or struct of Weld's as a list or tuple.
    fn of_plain(plain: &Shape) -> Option<Shape> {
        match plain {
            Shape::Plain(Type::Vec(element)) => Some(Shape::List(Box::new(Shape::Plain((**element).clone())))),
            Shape::Plain(Type::Struct(parts)) => Some(Shape::Tuple(parts.iter().cloned().map(Shape::Plain).collect())),
            _ => None,
        }
    }

    /// For messages.
    pub fn described(&self) -> String {
        match self {
            Shape::Void => "no value".into(),
            Shape::Plain(ty) => ty.to_string(),
            Shape::Text => "a string".into(),
            Shape::List(element) => format!("lists of {}", element.described()),
            Shape::Array(array) => {
                let size = |size: &Option<u64>| size.map_or("?".into(), |size| size.to_string());
                let sizes: Vec<String> = array.sizes.iter().map(size).collect();
                format!("{}[{}]", array.element, sizes.join(", "))
            }
            Shape::Tuple(parts) => {
                format!("({})", parts.iter().map(Shape::described).collect::<Vec<_>>().join(", "))
            }
            Shape::Record(fields) => {
                let field = |(name, shape): &(String, Shape)| format!("{name}: {}", shape.described());
                format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(", "))
            }
        }
    }
}

impl Array {
    /// Whether data of these sizes can be this array's, as far as both are known.
    pub fn agrees(&self, sizes: &[Option<u64>]) -> bool {
        let agree = |(own, other): (&Option<u64>, &Option<u64>)| own.is_none() || other.is_none() || own == other;
        self.rank() == sizes.len() && self.sizes.iter().zip(sizes).all(agree)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_sizes_come_with_the_data() {
        let ty = |sizes: &[Option<u64>]| Shape::array(ScalarKind::F32, sizes.iter().copied()).ty().to_string();
        assert_eq!(ty(&[]), "f32");
        assert_eq!(ty(&[None]), "vec[f32]");
        assert_eq!(ty(&[Some(2), Some(3)]), "vec[f32]");
        assert_eq!(ty(&[Some(2), None]), "{vec[f32],i64}");
        assert_eq!(ty(&[None, Some(2), None]), "{vec[f32],i64,i64}");
    }

    #[test]
    fn columns_fit() {
        let real = DataType::Scalar(ScalarKind::F32);
        let shape = Shape::array(ScalarKind::F32, [None, Some(3)]);
        assert_eq!(shape.fits(&DataType::list(DataType::fixed(real.clone(), 3))), Ok(()));
        assert_eq!(shape.fits(&DataType::list(DataType::list(real.clone()))), Ok(()));
        assert!(shape.fits(&DataType::list(DataType::fixed(real.clone(), 4))).is_err());
        assert_eq!(shape.fits(&real), Err("the type is REAL, the function has f32[?, 3]".into()));
        let plain = Shape::Plain(weld_core::parse_type("vec[{f32,vec[u8]}]").unwrap());
        let row = DataType::Struct(vec![("a".into(), real), ("b".into(), DataType::Text)]);
        assert_eq!(plain.fits(&DataType::list(row)), Ok(()));
    }
}
