//! Arrow arrays as arguments and results of programs.

use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::*;
use weld::{Options, Program, Value, from_arrow, to_arrow};

/// Through the program that gives back its argument.
fn round_trip(array: ArrayRef, ty: &str) -> ArrayRef {
    let value = from_arrow(&array).unwrap();
    assert_eq!(value.ty().to_string(), ty);
    let program = Program::parse(&format!("|x: {ty}| x")).unwrap().compile(&Options::default()).unwrap();
    to_arrow(&program.run(&[value]).unwrap()).unwrap()
}

#[test]
fn arrays_come_back() {
    let arrays: [(ArrayRef, &str); 12] = [
        (Arc::new(Int8Array::from(vec![-1, 2])), "vec[i8]"),
        (Arc::new(Int16Array::from(vec![-1, 2])), "vec[i16]"),
        (Arc::new(Int32Array::from(vec![-1, 2])), "vec[i32]"),
        (Arc::new(Int64Array::from(vec![i64::MIN])), "vec[i64]"),
        (Arc::new(UInt8Array::from(vec![255])), "vec[u8]"),
        (Arc::new(UInt16Array::from(vec![1; 1000])), "vec[u16]"),
        (Arc::new(UInt32Array::from(Vec::<u32>::new())), "vec[u32]"),
        (Arc::new(UInt64Array::from(vec![u64::MAX])), "vec[u64]"),
        (Arc::new(Float32Array::from(vec![0.5])), "vec[f32]"),
        (Arc::new(Float64Array::from(vec![0.5, -0.0])), "vec[f64]"),
        (Arc::new(BooleanArray::from(vec![true, false, true])), "vec[bool]"),
        (Arc::new(BinaryArray::from_vec(vec![b"", b"short", b"longer than twelve"])), "vec[vec[i8]]"),
    ];
    for (array, ty) in arrays {
        assert_eq!(&round_trip(array.clone(), ty), &array);
        if array.len() > 1 {
            let rest = array.slice(1, array.len() - 1);
            assert_eq!(&round_trip(rest.clone(), ty), &rest, "sliced");
        }
    }
}

#[test]
fn numbers_are_not_copied() {
    let array = Int64Array::from(vec![1, 2, 3]);
    let back = to_arrow(&from_arrow(&array).unwrap()).unwrap();
    assert_eq!(back.as_primitive::<Int64Type>().values().as_ptr(), array.values().as_ptr());
}

#[test]
fn structs_are_columns() {
    let inner: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
    let inner = StructArray::try_from(vec![("s", inner), ("b", Arc::new(BooleanArray::from(vec![true, false])) as _)]);
    let decimals = Decimal128Array::from(vec![1, -1]).with_precision_and_scale(20, 2).unwrap();
    let rows =
        StructArray::try_from(vec![("inner", Arc::new(inner.unwrap()) as ArrayRef), ("d", Arc::new(decimals) as _)]);
    let back = round_trip(Arc::new(rows.unwrap()), "vec[{{vec[i8],bool},i128}]");
    let back = back.as_struct();
    assert_eq!(back.column_names(), ["$0", "$1"]);
    assert_eq!(back.column(0).as_struct().column(0).as_binary::<i32>().value(1), b"b");
    assert_eq!(back.column(1).as_primitive::<Decimal128Type>().values(), &[1, -1]);
}

fn list(values: ArrayRef, lengths: &[usize]) -> ArrayRef {
    let field = Arc::new(Field::new_list_field(values.data_type().clone(), false));
    Arc::new(ListArray::new(field, OffsetBuffer::from_lengths(lengths.iter().copied()), values, None))
}

#[test]
fn lists_are_vectors_of_vectors() {
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 4, 5]));
    let flags: ArrayRef = Arc::new(BooleanArray::from(vec![true, false, true, true, false]));
    let names: ArrayRef = Arc::new(BinaryArray::from_vec(vec![b"a", b"", b"longer than twelve", b"b", b"c"]));
    let fields = [&numbers, &flags, &names].into_iter().enumerate();
    let rows: StructArray = fields
        .map(|(i, column)| (Arc::new(Field::new(format!("${i}"), column.data_type().clone(), false)), column.clone()))
        .collect::<Vec<_>>()
        .into();
    for (values, ty) in [
        (numbers.clone(), "vec[vec[i64]]"),
        (flags, "vec[vec[bool]]"),
        (names, "vec[vec[vec[i8]]]"),
        (Arc::new(rows), "vec[vec[{i64,bool,vec[i8]}]]"),
        (list(numbers, &[1, 0, 2, 1, 1]), "vec[vec[vec[i64]]]"),
    ] {
        let lists = list(values, &[2, 0, 3]);
        assert_eq!(&round_trip(lists.clone(), ty), &lists);
        for (start, length) in [(0, 0), (1, 0), (1, 1), (2, 1), (1, 2), (3, 0)] {
            let part = lists.slice(start, length);
            assert_eq!(&round_trip(part.clone(), ty), &part, "{start}, {length}");
        }
    }
    let bytes = list(Arc::new(UInt8Array::from(vec![7; 20])), &[1, 0, 19]);
    let back = round_trip(bytes, "vec[vec[u8]]");
    assert_eq!(back.as_binary::<i32>().value(2), [7; 19]);
}

#[test]
fn other_lists_and_strings_come_in() {
    let fixed = FixedSizeListArray::new(
        Arc::new(Field::new_list_field(DataType::Int32, true)),
        2,
        Arc::new(Int32Array::from(vec![Some(1), None, Some(3), Some(4), Some(5), Some(6)])),
        None,
    );
    // Only what the lists hold counts.
    let pairs = round_trip(Arc::new(fixed.slice(1, 2)), "vec[vec[i32]]");
    assert_eq!(pairs.as_list::<i32>().value(1).as_primitive::<Int32Type>().values(), &[5, 6]);
    assert!(from_arrow(&fixed).is_err());
    let texts = ["short", "", "longer than twelve bytes"];
    let dictionary: DictionaryArray<Int8Type> = ["x", "y", "x", "x"].into_iter().collect();
    for (array, wanted) in [
        (Arc::new(StringViewArray::from_iter_values(texts)) as ArrayRef, &texts[..]),
        (Arc::new(BinaryViewArray::from_iter_values(texts)), &texts),
        (Arc::new(LargeStringArray::from_iter_values(texts)), &texts),
        (Arc::new(FixedSizeBinaryArray::try_from_iter([b"ab", b"cd"].into_iter()).unwrap()), &["ab", "cd"]),
        (Arc::new(dictionary), &["x", "y", "x", "x"]),
    ] {
        for start in 0..array.len() {
            let back = round_trip(array.slice(start, array.len() - start), "vec[vec[i8]]");
            let found: Vec<&[u8]> = back.as_binary::<i32>().iter().flatten().collect();
            assert_eq!(found, wanted[start..].iter().map(|text| text.as_bytes()).collect::<Vec<_>>());
        }
    }
    let missing: DictionaryArray<Int8Type> = [Some("x"), None].into_iter().collect();
    assert!(from_arrow(&missing).is_err());
}

#[test]
fn bits_may_begin_anywhere() {
    let bits: Vec<bool> = (0..100).map(|i| i % 3 == 0).collect();
    let array = BooleanArray::from(bits.clone());
    for start in [0, 1, 7, 8, 9, 64, 99, 100] {
        let back = round_trip(Arc::new(array.slice(start, 100 - start)), "vec[bool]");
        assert_eq!(back.as_boolean().iter().flatten().collect::<Vec<_>>(), bits[start..]);
    }
}

#[test]
fn arrays_outlive_what_they_come_from() {
    let program =
        Program::parse("|v: vec[i64], s: vec[vec[i8]]| {map(v, |x| x + 1L), v, s, [\"a constant of the code\"]}");
    let compiled = program.unwrap().compile(&Options::default()).unwrap();
    let texts = StringArray::from(vec!["longer than twelve bytes"]);
    let result = compiled.run(&[Value::vector(vec![1i64, 2]), from_arrow(&texts).unwrap()]).unwrap();
    drop((compiled, texts));
    let arrays: Vec<ArrayRef> = (0..4).map(|i| to_arrow(&result.field(i).unwrap()).unwrap()).collect();
    drop(result);
    assert_eq!(arrays[0].as_primitive::<Int64Type>().values(), &[2, 3]);
    assert_eq!(arrays[1].as_primitive::<Int64Type>().values(), &[1, 2]);
    assert_eq!(arrays[2].as_binary::<i32>().value(0), b"longer than twelve bytes");
    assert_eq!(arrays[3].as_binary::<i32>().value(0), b"a constant of the code");
}

#[test]
fn what_has_no_counterpart_is_an_error() {
    assert!(from_arrow(&Int64Array::from(vec![Some(1), None])).is_err());
    assert!(from_arrow(&NullArray::new(3)).is_err());
    assert!(to_arrow(&Value::i64(1)).is_err());
    let dicts = Program::parse("[result(dictmerger[i64,i64,+])]").unwrap().compile(&Options::default()).unwrap();
    let error = to_arrow(&dicts.run(&[]).unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "vectors of dict[i64,i64] have no Arrow type here");
}
