//! Columns of files that expressions are: those of the table, and fields of structs, which are read without their
//! siblings.
//!
//! ```text
//! k, get_field(addr, 'zip'), get_field(addr, 'geo', 'lat')        k, addr.zip, addr.geo.lat
//! ```

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::functions::core::getfield::GetFieldFunc;
use datafusion::parquet::schema::types::ColumnPath;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};

/// The path of a column of the table, or of a field of one through structs.
pub(crate) fn path_of(expr: &Arc<dyn PhysicalExpr>, table: &Schema) -> Option<ColumnPath> {
    Some(ColumnPath::new(parts_of(expr, table)?.0))
}

/// The names on the way to a column, and what it is.
fn parts_of<'a>(expr: &Arc<dyn PhysicalExpr>, table: &'a Schema) -> Option<(Vec<String>, &'a Field)> {
    if let Some(column) = expr.downcast_ref::<Column>() {
        let field = table.fields().get(column.index())?;
        return Some((vec![field.name().clone()], field));
    }
    let call = expr.downcast_ref::<ScalarFunctionExpr>().filter(|call| call.fun().inner().is::<GetFieldFunc>())?;
    let (of, names) = call.args().split_first()?;
    let (mut parts, mut of) = parts_of(of, table)?;
    for name in names {
        let name = name.downcast_ref::<Literal>()?.value().try_as_str()??;
        let DataType::Struct(fields) = of.data_type() else { return None };
        // A name that comes twice is no path.
        let mut named = fields.iter().filter(|field| field.name() == name);
        let (Some(field), None) = (named.next(), named.next()) else { return None };
        // Of a struct that is NULL, DataFusion gives what lies there in a field that may not be, an empty text say.
        if of.is_nullable() && !field.is_nullable() {
            return None;
        }
        parts.push(name.to_owned());
        of = field;
    }
    Some((parts, of))
}

/// The expression with what is a column of the files replaced: by `column`, which is given the expression and its path,
/// and may leave a field to be computed of its struct.
pub(super) fn with_columns(
    expr: Arc<dyn PhysicalExpr>,
    table: &Schema,
    mut column: impl FnMut(&Arc<dyn PhysicalExpr>, ColumnPath) -> Option<Column>,
) -> Result<Arc<dyn PhysicalExpr>> {
    let replaced = |part: Arc<dyn PhysicalExpr>| {
        let column = path_of(&part, table).and_then(|path| column(&part, path));
        Ok(match column {
            Some(column) => Transformed::new(Arc::new(column) as _, true, TreeNodeRecursion::Jump),
            None => Transformed::no(part),
        })
    };
    expr.transform_down(replaced).data()
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Fields;
    use datafusion::functions::core::get_field;
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{BinaryExpr, col, lit};

    use super::*;

    fn schema() -> Schema {
        let field = |name: &str, data_type| Field::new(name, data_type, true);
        let geo = DataType::Struct(Fields::from(vec![field("lat", DataType::Float64)]));
        let twice = vec![field("geo", geo), field("x", DataType::Int32), field("x", DataType::Int64)];
        Schema::new(vec![field("k", DataType::Int32), field("addr", DataType::Struct(Fields::from(twice)))])
    }

    fn field(of: Arc<dyn PhysicalExpr>, names: &[&str]) -> Arc<dyn PhysicalExpr> {
        let args = std::iter::once(of).chain(names.iter().map(|name| lit(*name))).collect();
        Arc::new(ScalarFunctionExpr::try_new(get_field(), args, &schema(), Arc::default()).expect("a field"))
    }

    #[test]
    fn fields_of_structs_are_columns() {
        let column = |name: &str| col(name, &schema()).expect("a column");
        let path = |expr| path_of(&expr, &schema()).map(|path| path.string());
        assert_eq!(path(column("k")).as_deref(), Some("k"));
        let whole = field(column("addr"), &["geo", "lat"]);
        let parts = field(field(column("addr"), &["geo"]), &["lat"]);
        assert_eq!([path(whole.clone()), path(parts)], [Some("addr.geo.lat".into()), Some("addr.geo.lat".into())]);
        assert_eq!(path(field(column("addr"), &["x"])), None);
        assert_eq!(path(lit(1)), None);
        let sum: Arc<dyn PhysicalExpr> = Arc::new(BinaryExpr::new(whole, Operator::Plus, column("k")));
        let replaced = with_columns(sum, &schema(), |_, path| Some(Column::new(&path.string(), 7)));
        assert_eq!(replaced.expect("an expression").to_string(), "addr.geo.lat@7 + k@7");
    }
}
