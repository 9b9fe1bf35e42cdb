//! LIKE and `contains` over the texts of a column.
//!
//! ```text
//! page:       ..│a text of some length│12 bytes│another text│..        LIKE '%other%'
//! searched:     └──────────────────── at once ─────────────┘           a place found belongs to the text around it
//! ```
//!
//! Starting a search takes longer than reading a short text. Texts that lie behind each other, as in a page without a
//! dictionary, are searched as one.

use std::sync::Arc;

use arrow::array::{Array, BooleanArray, ByteView, StringViewArray};
use arrow::buffer::{BooleanBuffer, MutableBuffer};
use arrow::util::bit_util::{ceil, set_bit};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, LikeExpr, Literal};
use memchr::memmem::Finder;
use weld_runtime::strings::Pattern;

use crate::lower::text::Search;

/// Texts of up to this many bytes are in their view.
const INLINE_MAX: u32 = 12;

/// Texts that take less than one in so many of the bytes between the first and the last are searched one by one.
const SPARSE: usize = 4;

/// `column LIKE 'pattern'`, `contains(column, 'part')`.
pub(super) struct TextPattern {
    pattern: Pattern,
    /// The same as an expression, for other arrays than of views.
    pub(super) expr: Arc<dyn PhysicalExpr>,
}

impl TextPattern {
    /// What the expression, over one column, is, if it is that.
    pub(super) fn of(expr: &Arc<dyn PhysicalExpr>) -> Option<TextPattern> {
        if let Some(search) = Search::of(expr) {
            let needle = search.needle_in_column().filter(|_| !search.is_negated)?;
            return Some(TextPattern { pattern: Pattern::contains(needle.as_bytes()), expr: Arc::clone(expr) });
        }
        let like = expr.downcast_ref::<LikeExpr>().filter(|like| !like.negated() && !like.case_insensitive())?;
        like.expr().downcast_ref::<Column>()?;
        let pattern = like.pattern().downcast_ref::<Literal>()?.value().try_as_str()??;
        Some(TextPattern { pattern: Pattern::like(pattern.as_bytes()), expr: Arc::clone(expr) })
    }

    /// The verdict on each text. No null matches.
    pub(super) fn test(&self, texts: &StringViewArray) -> BooleanArray {
        let together = self.pattern.needle().and_then(|needle| Some((needle, Neighbours::of(texts)?)));
        let matches = |row| texts.is_valid(row) && self.pattern.matches(texts.value(row).as_bytes());
        let verdict = match together {
            Some((needle, neighbours)) => neighbours.search(needle, matches),
            None => BooleanBuffer::collect_bool(texts.len(), matches),
        };
        BooleanArray::new(verdict, None)
    }
}

/// Texts of which those too long for their view lie behind each other in one buffer.
struct Neighbours<'a> {
    views: &'a [u128],
    bytes: &'a [u8],
}

impl<'a> Neighbours<'a> {
    /// `None` if they do not, or with too much between them.
    fn of(texts: &'a StringViewArray) -> Option<Neighbours<'a>> {
        let (mut end, mut buffer, mut start, mut taken) = (0, None, 0, 0);
        for view in texts.views().iter().copied().map(ByteView::from).filter(|view| view.length > INLINE_MAX) {
            let is_first = buffer.is_none();
            if *buffer.get_or_insert(view.buffer_index) != view.buffer_index || view.offset < end {
                return None;
            }
            if is_first {
                start = view.offset;
            }
            end = view.offset.checked_add(view.length)?;
            taken += view.length as usize;
        }
        let bytes = match buffer {
            Some(buffer) => texts.data_buffers().get(buffer as usize)?.get(..end as usize)?,
            None => &[],
        };
        ((end - start) as usize <= SPARSE * taken).then_some(Neighbours { views: texts.views(), bytes })
    }

    /// Which rows match: all of them have the needle.
    fn search(&self, needle: &Finder<'_>, matches: impl Fn(usize) -> bool) -> BooleanBuffer {
        let mut verdict = MutableBuffer::from_len_zeroed(ceil(self.views.len(), 8));
        let length = needle.needle().len();
        let find = |from: usize| needle.find(&self.bytes[from..]).map(|at| from + at);
        let mut next = find(0);
        for (row, view) in self.views.iter().copied().map(ByteView::from).enumerate() {
            let (start, end) = (view.offset as usize, view.offset as usize + view.length as usize);
            let may_match = match view.length > INLINE_MAX {
                true => {
                    // A place before belongs to a text that ends before, or to what is between two.
                    if next.is_some_and(|place| place < start) {
                        next = find(start);
                    }
                    next.is_some_and(|place| place + length <= end)
                }
                false => length <= view.length as usize,
            };
            if may_match && matches(row) {
                set_bit(&mut verdict, row);
            }
        }
        BooleanBuffer::new(verdict.into(), 0, self.views.len())
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::StringViewBuilder;
    use arrow::buffer::Buffer;
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::common::ScalarValue;
    use datafusion::functions::{string, unicode};
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::ScalarFunctionExpr;
    use datafusion::physical_expr::expressions::{binary, col, like, lit};

    use super::*;

    fn view(text: &str) -> Arc<dyn PhysicalExpr> {
        lit(ScalarValue::Utf8View(Some(text.to_owned())))
    }

    fn pattern(text: &str) -> Option<TextPattern> {
        let schema = Schema::new(vec![Field::new("s", DataType::Utf8View, true)]);
        let column = col("s", &schema).expect("the column");
        TextPattern::of(&like(false, false, column, view(text), &schema).expect("texts"))
    }

    /// A page of texts with their lengths between them, and views of all but every fourth; every fifth row is null.
    fn page(texts: &[&str]) -> StringViewArray {
        let mut bytes = Vec::new();
        let mut places = Vec::new();
        for text in texts {
            bytes.extend((text.len() as u32).to_le_bytes());
            places.push((bytes.len() as u32, text.len() as u32));
            bytes.extend(text.as_bytes());
        }
        let mut builder = StringViewBuilder::new();
        let block = builder.append_block(Buffer::from(bytes));
        for (row, (start, length)) in places.into_iter().enumerate() {
            match row {
                _ if row % 5 == 4 => builder.append_null(),
                _ if row % 4 == 3 => {}
                _ => builder.try_append_view(block, start, length).expect("within the page"),
            }
        }
        builder.finish()
    }

    fn check(texts: &StringViewArray, like: &str) {
        let pattern = pattern(like).expect("a pattern");
        let by_row = |row| texts.is_valid(row) && pattern.pattern.matches(texts.value(row).as_bytes());
        let expected = BooleanArray::new(BooleanBuffer::collect_bool(texts.len(), by_row), None);
        assert_eq!(pattern.test(texts), expected, "{like}");
    }

    #[test]
    fn texts_searched_together_are_as_texts_searched_alone() {
        let texts = [
            "the first green text is long",
            "green",
            "",
            "a gre",
            "en of which a needle is in two texts",
            "greengreen",
            "short",
            "a text of more than twelve bytes",
            "gre\u{6}\0\0\0en that is long enough",
            "ends with a green",
            "green begins a long text",
            "green green green green green",
            "another text without it, long",
        ];
        let many: Vec<&str> = texts.iter().cycle().take(200).copied().collect();
        for texts in [&many[..], &texts[..], &texts[..1], &[]] {
            let page = page(texts);
            for like in
                ["%green%", "%long%text%", "%e%", "green%", "%green", "%of%more%than%", "%zzz%", "%", "%gr_en%", ""]
            {
                check(&page, like);
                check(&page.slice(page.len() / 3, page.len() / 2), like);
            }
        }
    }

    #[test]
    fn texts_in_any_order_and_buffer() {
        let texts = page(&["the first green text", "a second one that is long", "a third green and longer text"]);
        let order = arrow::array::UInt32Array::from(vec![2, 0, 2, 1, 1]);
        let taken = arrow::compute::take(&texts, &order, None).expect("rows of the array");
        let mixed = arrow::compute::concat(&[&texts, &taken]).expect("texts");
        for array in [&taken, &mixed] {
            ["%green%", "%t%x%"].iter().for_each(|like| check(array.as_any().downcast_ref().expect("views"), like));
        }
    }

    #[test]
    fn only_plain_patterns_of_columns_are_taken() {
        let schema = Schema::new(vec![Field::new("s", DataType::Utf8View, true)]);
        let column = || col("s", &schema).expect("the column");
        for (negated, any_case) in [(true, false), (false, true)] {
            let expr = like(negated, any_case, column(), view("%a%"), &schema).expect("texts");
            assert!(TextPattern::of(&expr).is_none());
        }
        let expr = like(false, false, view("a"), column(), &schema).expect("texts");
        assert!(TextPattern::of(&expr).is_none());
    }
    #[test]
    fn searches_for_constants_in_columns_are_patterns() {
        let schema = Schema::new(vec![Field::new("s", DataType::Utf8View, true)]);
        let column = || col("s", &schema).expect("the column");
        let call = |function, args| -> Arc<dyn PhysicalExpr> {
            Arc::new(ScalarFunctionExpr::try_new(function, args, &schema, Arc::default()).expect("a call"))
        };
        let place = |op, number: i32| {
            let place = call(unicode::strpos(), vec![column(), view("green")]);
            binary(place, op, lit(number), &schema).expect("numbers")
        };
        let texts =
            page(&["the first green text", "green", "a second one that is long", "a third green and longer text"]);
        let expected = pattern("%green%").expect("a pattern").test(&texts);
        let contains = call(string::contains(), vec![column(), view("green")]);
        for expr in [contains, place(Operator::Gt, 0), place(Operator::NotEq, 0), place(Operator::GtEq, 1)] {
            assert_eq!(TextPattern::of(&expr).expect("a pattern").test(&texts), expected, "{expr}");
        }
        let contains = call(string::contains(), vec![view("green"), column()]);
        for expr in [contains, place(Operator::Eq, 0), place(Operator::Eq, 1), place(Operator::Gt, 1)] {
            assert!(TextPattern::of(&expr).is_none(), "{expr}");
        }
    }
}
