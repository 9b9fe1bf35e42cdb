//! A source's predicate, as far as it rules out rows by one column at a time.
//!
//! The predicate is a hint: the plan above filters again. So whatever cannot be judged here passes, an error
//! included, which then shows where it always did.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatch, new_null_array};
use arrow::compute::{and, cast_with_options};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Operator;
use datafusion::parquet::schema::types::ColumnPath;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, InListExpr, IsNotNullExpr, LikeExpr, Literal,
};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr, conjunction, split_conjunction};
use weld_plans::{KeySet, KeySetExpr, current_filter};

use super::CAST;
use super::columns::UsedColumn;
use super::paths::with_columns;
use super::texts::TextPattern;
use crate::lower::text::Search;

/// A column that drops fewer rows than this is not worth judging first. Nor are the others of a row group picked, where
/// they are scattered: all are decoded in less time.
pub(super) const PASSED_MAX: f64 = 0.5;

/// Nanoseconds that DataFusion takes to evaluate a function or a cast of dates and times for one value, and for
/// arithmetic with an interval (EXTRACT of the hour 35, a timestamp plus an interval 107). Compiled code takes a few.
const TIME_FUNCTION_NS: f64 = 30.0;
const INTERVAL_NS: f64 = 100.0;

/// Nanoseconds that decoding a value takes, and a text.
const DECODING_NS: f64 = 4.0;
const DECODING_TEXT_NS: f64 = 10.0;

/// So many keys are expected to let half of the rows pass.
const MANY_KEYS: f64 = 1e6;

/// Whether a predicate is of a kind that few values fail, as a rule: it is left to the plan above. A row group is
/// judged whole before anybody knows how many rows pass, and with a pattern that takes longer than all else. What is
/// not equal to one value is judged: often most rows have that value, zero or an empty text. But not texts that other
/// conditions leave few of. Nulls are counted in the file: most columns have few, and some are null but for a few rows.
fn passes_most(
    expr: &Arc<dyn PhysicalExpr>,
    data_type: &DataType,
    is_alone: bool,
    null_share: impl FnOnce() -> f64,
) -> bool {
    if let Some(search) = Search::of(expr) {
        return search.is_negated;
    }
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        return match binary.op() {
            Operator::NotEq => !is_alone && !data_type.is_primitive(),
            op => matches!(op, Operator::IsDistinctFrom | Operator::NotLikeMatch),
        };
    }
    if let Some(not_null) = expr.downcast_ref::<IsNotNullExpr>() {
        return !not_null.arg().is::<Column>() || 1.0 - null_share() > PASSED_MAX;
    }
    let is_negated_list = expr.downcast_ref::<InListExpr>().is_some_and(InListExpr::negated);
    let is_negated_like = expr.downcast_ref::<LikeExpr>().is_some_and(LikeExpr::negated);
    is_negated_list || is_negated_like
}

/// Conjuncts over one column.
pub(super) struct ColumnPredicate {
    pub(super) path: ColumnPath,
    /// Sets of keys that the column is looked up in, as it was decoded: they hold integers of any width.
    sets: Vec<Arc<KeySet>>,
    /// Patterns that texts are compared with.
    patterns: Vec<TextPattern>,
    /// The other conjuncts, over the column in the table's type.
    expr: Option<Arc<dyn PhysicalExpr>>,
    /// Null stands for absent values, also where the table says that there are none.
    schema: SchemaRef,
    /// What `expr` costs above comparisons, and what a row that is dropped spares; in nanoseconds.
    cost: f64,
    spared: f64,
    seen: usize,
    passed: usize,
}

impl ColumnPredicate {
    /// Those conjuncts of `predicate`, as it is now, that read one column; one predicate for each column. `used` are
    /// the columns that the scan reads, `null_share` tells how much of a column is null.
    pub(super) fn of(
        predicate: &Arc<dyn PhysicalExpr>,
        table: &Schema,
        used: &[UsedColumn],
        mut null_share: impl FnMut(&ColumnPath) -> f64,
    ) -> Result<Vec<ColumnPredicate>> {
        let now = current_filter(predicate, table)?;
        let (mut columns, mut fields) = (Vec::new(), Vec::new());
        let over_fields = with_columns(now, table, |expr, path| {
            let place = match fields.iter().position(|(known, _)| *known == path) {
                Some(place) => place,
                None => {
                    let field = expr.return_field(table).ok()?;
                    fields.push((path.clone(), Field::new(path.string(), field.data_type().clone(), true)));
                    fields.len() - 1
                }
            };
            Some(Column::new(&path.string(), place))
        })?;
        let by_column = by_column(&over_fields);
        let is_alone = by_column.len() == 1;
        for (place, mut conjuncts) in by_column {
            let (path, field) = &fields[place];
            conjuncts.retain(|conjunct| !passes_most(conjunct, field.data_type(), is_alone, || null_share(path)));
            // arrow-rs reads what is nested, once it is known which rows are read.
            if !conjuncts.is_empty() && !field.data_type().is_nested() {
                let others = used.iter().filter(|used| used.path != *path);
                let spared = others.map(|used| decoding_ns(&used.table_type)).sum();
                columns.push(ColumnPredicate::new(path, field, conjuncts, spared)?);
            }
        }
        put_in_order(&mut columns);
        Ok(columns)
    }

    fn new(
        path: &ColumnPath,
        field: &Field,
        conjuncts: Vec<Arc<dyn PhysicalExpr>>,
        spared: f64,
    ) -> Result<ColumnPredicate> {
        let set_of = |conjunct: &Arc<dyn PhysicalExpr>| {
            let among = conjunct.downcast_ref::<KeySetExpr>().filter(|among| among.value().is::<Column>());
            among.map(|among| Arc::clone(among.set()))
        };
        let all_sets: Vec<_> = conjuncts.iter().filter_map(set_of).collect();
        let is_integer = field.data_type().is_integer();
        // A set says more than the bounds of its keys.
        let is_other = |conjunct: &Arc<dyn PhysicalExpr>| {
            !(is_integer && set_of(conjunct).is_some() || is_bound_of(&all_sets, conjunct))
        };
        let others: Vec<_> = conjuncts.iter().filter(|conjunct| is_other(conjunct)).cloned().collect();
        let sets = if is_integer { all_sets } else { Vec::new() };
        let (mut patterns, mut exprs) = (Vec::new(), Vec::new());
        for conjunct in others {
            let expr = conjunct.transform(first_column).data()?;
            match TextPattern::of(&expr) {
                Some(pattern) => patterns.push(pattern),
                None => exprs.push(expr),
            }
        }
        let expr = (!exprs.is_empty()).then(|| conjunction(exprs));
        let schema = Arc::new(Schema::new(vec![field.clone()]));
        let cost = expr.iter().map(|expr| cost_ns(expr, &schema)).sum();
        Ok(ColumnPredicate { path: path.clone(), sets, patterns, expr, schema, cost, spared, seen: 0, passed: 0 })
    }

    /// The verdict on each value of the column, in whatever type it was decoded to.
    pub(super) fn judge(&self, values: &ArrayRef) -> Result<BooleanArray, ArrowError> {
        let is_integer = values.data_type().is_integer();
        let by_sets = self.sets.iter().filter(|_| is_integer).filter_map(|set| set.test(values.as_ref()));
        let by_patterns = self.patterns.iter().map(|pattern| match values.as_string_view_opt() {
            Some(texts) => Ok(pattern.test(texts)),
            None => self.evaluate(&pattern.expr, values),
        });
        let by_expr = self.expr.iter().map(|expr| self.evaluate(expr, values));
        let all = by_sets.map(Ok).chain(by_patterns).chain(by_expr);
        let verdict = all.reduce(|all, verdict| and(&all?, &verdict?)).transpose()?;
        Ok(verdict.unwrap_or_else(|| BooleanArray::from(vec![true; values.len()])))
    }

    fn evaluate(&self, expr: &Arc<dyn PhysicalExpr>, values: &ArrayRef) -> Result<BooleanArray, ArrowError> {
        let everything = || BooleanArray::from(vec![true; values.len()]);
        let Ok(column) = cast_with_options(values, self.schema.field(0).data_type(), &CAST) else {
            return Ok(everything());
        };
        // Where no row has a value, a dictionary has no entries, at which some of arrow's kernels panic.
        let column = match column.as_any_dictionary_opt().filter(|coded| coded.values().is_empty()) {
            Some(coded) => coded.with_values(new_null_array(coded.values().data_type(), 1)),
            None => column,
        };
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), vec![column])?;
        let verdict = expr.evaluate(&batch).and_then(|verdict| verdict.into_array(values.len()));
        Ok(verdict.ok().and_then(|v| v.as_boolean_opt().cloned()).unwrap_or_else(everything))
    }

    /// Notes how many rows a row group had before and after.
    pub(super) fn note(&mut self, before: usize, after: usize) {
        self.seen += before;
        self.passed += after;
    }

    /// Whether it looks values up in sets of keys.
    pub(super) fn has_sets(&self) -> bool {
        !self.sets.is_empty()
    }

    /// Whether it drops enough rows to be asked first.
    pub(super) fn pays(&self) -> bool {
        let passed = if self.seen == 0 { PASSED_MAX } else { self.passed_share() };
        passed <= PASSED_MAX && self.cost <= (1.0 - passed) * self.spared
    }

    /// The share of rows that pass. Before it was asked a few keys are expected to drop more rows than many, and these
    /// more than what is no set of keys.
    fn passed_share(&self) -> f64 {
        if self.seen > 0 {
            return self.passed as f64 / self.seen as f64;
        }
        let keys = self.sets.iter().map(|set| set.keys()).min();
        keys.map_or(1.0, |keys| keys as f64 / (keys as f64 + MANY_KEYS))
    }
}

fn decoding_ns(data_type: &DataType) -> f64 {
    if data_type.is_primitive() { DECODING_NS } else { DECODING_TEXT_NS }
}

/// What an expression over the column of `schema` costs above comparisons.
fn cost_ns(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> f64 {
    let mut cost = 0.0;
    let visited = expr.apply(|expr| {
        let is = |what: fn(&DataType) -> bool| {
            expr.children().iter().any(|input| input.data_type(schema).is_ok_and(|data_type| what(&data_type)))
        };
        if expr.is::<BinaryExpr>() {
            let is_interval = |data_type: &DataType| matches!(data_type, DataType::Interval(_));
            cost += if is(is_interval) { INTERVAL_NS } else { 0.0 };
        } else if expr.is::<ScalarFunctionExpr>() || expr.is::<CastExpr>() {
            cost += if is(DataType::is_temporal) { TIME_FUNCTION_NS } else { 0.0 };
        }
        Ok(TreeNodeRecursion::Continue)
    });
    visited.map_or(0.0, |_| cost)
}

/// Those first that drop most rows: other columns are decoded only where they let rows pass.
pub(super) fn put_in_order(predicates: &mut [ColumnPredicate]) {
    predicates.sort_by(|a, b| a.passed_share().total_cmp(&b.passed_share()));
}

/// For columns the conjuncts that a predicate has of them, or implies.
///
/// ```text
/// a > 1 AND (a = 2 AND b = 'x' OR a = 3 AND b = 'y')        a: a > 1, a = 2 OR a = 3        b: b = 'x' OR b = 'y'
/// ```
fn by_column(predicate: &Arc<dyn PhysicalExpr>) -> BTreeMap<usize, Vec<Arc<dyn PhysicalExpr>>> {
    let mut columns: BTreeMap<usize, Vec<Arc<dyn PhysicalExpr>>> = BTreeMap::new();
    for conjunct in split_conjunction(predicate) {
        let used = collect_columns(conjunct);
        let mut used = used.iter();
        match (used.next(), used.next(), conjunct.downcast_ref::<BinaryExpr>()) {
            (Some(column), None, _) => columns.entry(column.index()).or_default().push(Arc::clone(conjunct)),
            (_, Some(_), Some(either)) if *either.op() == Operator::Or => {
                let (mut left, right) = (by_column(either.left()), by_column(either.right()));
                for (column, right) in right {
                    let Some(left) = left.remove(&column) else { continue };
                    let either = BinaryExpr::new(conjunction(left), Operator::Or, conjunction(right));
                    columns.entry(column).or_default().push(Arc::new(either));
                }
            }
            _ => {}
        }
    }
    columns
}

/// Whether it compares the column with a constant that no key of a set is beyond.
fn is_bound_of(sets: &[Arc<KeySet>], conjunct: &Arc<dyn PhysicalExpr>) -> bool {
    let Some(binary) = conjunct.downcast_ref::<BinaryExpr>().filter(|binary| binary.left().is::<Column>()) else {
        return false;
    };
    let Some(value) = binary.right().downcast_ref::<Literal>().map(Literal::value) else { return false };
    if let Some(value) = value.try_as_str() {
        let bounds = sets.iter().filter_map(|set| set.text_bounds());
        return value.is_some_and(|value| is_beyond(binary.op(), value, bounds));
    }
    let Ok(ScalarValue::Int64(Some(value))) = value.cast_to(&DataType::Int64) else { return false };
    is_beyond(binary.op(), value, sets.iter().filter_map(|set| set.bounds()))
}

fn is_beyond<T: PartialOrd>(op: &Operator, value: T, mut bounds: impl Iterator<Item = (T, T)>) -> bool {
    bounds.any(|(min, max)| match op {
        Operator::GtEq => value <= min,
        Operator::LtEq => value >= max,
        _ => false,
    })
}

/// The expression over the only column of a batch.
fn first_column(expr: Arc<dyn PhysicalExpr>) -> Result<Transformed<Arc<dyn PhysicalExpr>>> {
    match expr.downcast_ref::<Column>() {
        Some(column) => Ok(Transformed::yes(Arc::new(Column::new(column.name(), 0)))),
        None => Ok(Transformed::no(expr)),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringViewArray};
    use arrow::datatypes::TimeUnit;
    use datafusion::physical_expr::expressions::{col, lit};
    use weld_plans::KeySetBuilder;

    use super::*;

    fn schema() -> Schema {
        Schema::new(["a", "b", "c"].map(|name| Field::new(name, DataType::Int64, true)).to_vec())
    }

    fn compare(column: &str, op: Operator, value: i64) -> Arc<dyn PhysicalExpr> {
        Arc::new(BinaryExpr::new(col(column, &schema()).expect("a column"), op, lit(value)))
    }

    fn both(left: Arc<dyn PhysicalExpr>, op: Operator, right: Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
        Arc::new(BinaryExpr::new(left, op, right))
    }

    fn shown(predicate: &Arc<dyn PhysicalExpr>) -> Vec<String> {
        let columns = ColumnPredicate::of(predicate, &schema(), &[], |_| 0.0).expect("columns of the schema");
        columns.iter().map(|column| column.expr.as_ref().expect("an expression").to_string()).collect()
    }

    #[test]
    fn alternatives_of_several_columns_imply_alternatives_of_each() {
        use Operator::{And, Eq, Gt, Lt, Or};
        let one = both(compare("a", Eq, 2), And, both(compare("b", Eq, 20), And, compare("c", Lt, 1)));
        let other = both(compare("b", Eq, 30), And, compare("a", Eq, 3));
        let predicate = both(compare("a", Gt, 1), And, both(one, Or, other));
        assert_eq!(shown(&predicate), ["a@0 > 1 AND (a@0 = 2 OR a@0 = 3)", "b@0 = 20 OR b@0 = 30"]);
        // An alternative that says nothing of a column lets all of its values pass.
        assert!(shown(&both(compare("a", Eq, 1), Or, compare("b", Eq, 1))).is_empty());
    }

    #[test]
    fn columns_without_nulls_are_not_asked_for_them() {
        let not_null = |column: &str| -> Arc<dyn PhysicalExpr> {
            Arc::new(IsNotNullExpr::new(col(column, &schema()).expect("a column")))
        };
        let predicate = both(not_null("a"), Operator::And, not_null("b"));
        let null_share = |path: &ColumnPath| if path.string() == "b" { 0.6 } else { 0.4 };
        let columns = ColumnPredicate::of(&predicate, &schema(), &[], null_share).expect("columns of the schema");
        let [column] = &columns[..] else { panic!("one column") };
        assert!(column.path.string() == "b" && column.pays());
        let verdict = column.judge(&(Arc::new(Int64Array::from(vec![Some(1), None])) as ArrayRef)).expect("integers");
        assert_eq!(verdict, BooleanArray::from(vec![true, false]));
    }

    #[test]
    fn patterns_are_searched_and_the_rest_is_evaluated() {
        let schema = Schema::new(vec![Field::new("s", DataType::Utf8View, true)]);
        let column = || col("s", &schema).expect("a column");
        let text = |text: &str| lit(ScalarValue::Utf8View(Some(text.to_owned())));
        let like = Arc::new(LikeExpr::new(false, false, column(), text("%long%"))) as Arc<dyn PhysicalExpr>;
        let less = Arc::new(BinaryExpr::new(column(), Operator::Lt, text("b"))) as Arc<dyn PhysicalExpr>;
        let columns = ColumnPredicate::of(&both(like, Operator::And, less), &schema, &[], |_| 0.0).expect("one column");
        let [column] = &columns[..] else { panic!("one column") };
        assert_eq!((column.patterns.len(), column.expr.as_ref().expect("the rest").to_string()), (1, "s@0 < b".into()));
        let texts = vec![Some("a text that is long"), None, Some("along"), Some("c is as long as can be"), Some("a")];
        // Where texts have no views the pattern is evaluated as well.
        for values in [
            Arc::new(StringViewArray::from(texts.clone())) as ArrayRef,
            Arc::new(arrow::array::StringArray::from(texts)),
        ] {
            let verdict = column.judge(&values).expect("texts");
            let passed: Vec<bool> = verdict.iter().map(|passes| passes == Some(true)).collect();
            assert_eq!(passed, [true, false, true, false, false], "{}", values.data_type());
        }
    }

    #[test]
    fn costly_conditions_are_asked_where_rows_that_they_drop_are_wide() {
        let millis = DataType::Timestamp(TimeUnit::Millisecond, None);
        let schema = Schema::new(vec![Field::new("t", millis.clone(), true)]);
        let column = || col("t", &schema).expect("a column");
        let of = |table_type: &DataType| UsedColumn {
            path: ColumnPath::from("other"),
            expr: column(),
            table_type: table_type.clone(),
            nullable: true,
            coded: false,
        };
        let (few, many) = (vec![of(&DataType::Int64)], vec![of(&DataType::Utf8View); 20]);
        let time = |value| lit(ScalarValue::TimestampMillisecond(Some(value), None));
        let day = lit(ScalarValue::new_interval_mdn(0, 1, 0));
        let cast = Arc::new(CastExpr::new(column(), DataType::Date32, None)) as Arc<dyn PhysicalExpr>;
        let compared = both(column(), Operator::Lt, time(5));
        let cast = both(cast, Operator::Lt, lit(ScalarValue::Date32(Some(5))));
        let moved = both(both(column(), Operator::Plus, day), Operator::Lt, time(5));
        for (condition, of_few, of_many) in [(&compared, true, true), (&cast, false, true), (&moved, false, true)] {
            for (used, pays) in [(&few, of_few), (&many, of_many)] {
                let mut columns = ColumnPredicate::of(condition, &schema, used, |_| 0.0).expect("one column");
                assert_eq!(columns[0].pays(), pays, "{condition} beside {}", used.len());
                columns[0].note(100, 1);
                assert_eq!(columns[0].pays(), pays, "{condition} beside {} later", used.len());
                columns[0].note(100, 100);
                assert!(!columns[0].pays(), "{condition} drops few rows");
            }
        }
    }

    #[test]
    fn sets_of_keys_are_asked_alone() {
        let mut set = KeySetBuilder::new(2, 5, 9).expect("a set");
        [5, 9].into_iter().for_each(|key| set.insert(key));
        let among: Arc<dyn PhysicalExpr> =
            Arc::new(KeySetExpr::new(col("a", &schema()).expect("a column"), Arc::new(set.finish())));
        let bounds = both(compare("a", Operator::GtEq, 5), Operator::And, compare("a", Operator::LtEq, 9));
        let narrower = both(both(bounds, Operator::And, among), Operator::And, compare("a", Operator::LtEq, 8));
        let columns = ColumnPredicate::of(&narrower, &schema(), &[], |_| 0.0).expect("columns of the schema");
        assert_eq!(columns[0].expr.as_ref().expect("the narrower bound").to_string(), "a@0 <= 8");
        for values in [
            Arc::new(Int64Array::from(vec![Some(5), None, Some(9), Some(7), Some(8)])) as ArrayRef,
            Arc::new(arrow::array::Int8Array::from(vec![Some(5), None, Some(9), Some(7), Some(8)])),
        ] {
            let verdict = columns[0].judge(&values).expect("integers");
            let passed: Vec<bool> = verdict.iter().map(|passes| passes == Some(true)).collect();
            assert_eq!(passed, [true, false, false, false, false]);
        }
    }

    #[test]
    fn sets_of_texts_are_asked_without_their_bounds() {
        let schema = Schema::new(vec![Field::new("a", DataType::Utf8View, true)]);
        let column = || col("a", &schema).expect("a column");
        let compare = |op, value: &str| -> Arc<dyn PhysicalExpr> {
            let value = ScalarValue::Utf8View(Some(value.to_owned()));
            Arc::new(BinaryExpr::new(column(), op, lit(value)))
        };
        let keys = ["be", "cd"].map(|text| weld_plans::text_key(text.as_bytes()));
        let mut set = KeySetBuilder::new(2, keys[0].min(keys[1]), keys[0].max(keys[1])).expect("a set");
        keys.into_iter().for_each(|key| set.insert(key));
        let set = set.finish().with_text_bounds(b"be".to_vec(), b"cd".to_vec());
        let among: Arc<dyn PhysicalExpr> = Arc::new(KeySetExpr::new(column(), Arc::new(set)));
        let bounds = both(compare(Operator::GtEq, "be"), Operator::And, compare(Operator::LtEq, "cd"));
        let narrower = both(both(bounds, Operator::And, among), Operator::And, compare(Operator::LtEq, "c"));
        let columns = ColumnPredicate::of(&narrower, &schema, &[], |_| 0.0).expect("columns of the schema");
        let left = columns[0].expr.as_ref().expect("the set and the narrower bound").to_string();
        assert!(left.contains("keys") && left.ends_with(" AND a@0 <= c") && !left.contains("be"), "{left}");
        let values: ArrayRef = Arc::new(StringViewArray::from(vec![Some("be"), None, Some("cd"), Some("bf")]));
        let verdict = columns[0].judge(&values).expect("texts");
        assert_eq!(verdict.iter().map(|passes| passes == Some(true)).collect::<Vec<_>>(), [true, false, false, false]);
    }
}
