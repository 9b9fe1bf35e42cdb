//! Variances, standard deviations, covariances and correlations: a `moments` state.
//!
//! ```weld
//! let states = result(for(input, merger[{{f64,f64,f64}},{moments}], |b, i, r| merge(b, {{1.0, r.$0, 0.0}})));
//! select(states.$0.$0 > 1.0, states.$0.$2 / (states.$0.$0 - 1.0), 0.0)      # var_samp
//! ```
//! Functions of the same columns share a state. That of two columns is `{count, mean, m2, mean, m2, c}`.

use datafusion::functions_aggregate::correlation::Correlation;
use datafusion::functions_aggregate::covariance::{CovariancePopulation, CovarianceSample};
use datafusion::functions_aggregate::stddev::{Stddev, StddevPop};
use datafusion::functions_aggregate::variance::{VariancePopulation, VarianceSample};
use datafusion::logical_expr::AggregateUDF;
use weld_core::ir::{Expr, build as ir};
use weld_core::op::{BinaryOp, UnaryOp};
use weld_core::ty::{ScalarKind, Type};

use super::{Block, Result, Sql, Unsupported};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Statistic {
    /// Of the sample, or else of the population.
    Variance {
        sample: bool,
    },
    Deviation {
        sample: bool,
    },
    Covariance {
        sample: bool,
    },
    Correlation,
}

/// The fields of a moments state.
const COUNT: usize = 0;
const MEAN_X: usize = 1;
const M2_X: usize = 2;
const MEAN_Y: usize = 3;
const M2_Y: usize = 4;
const PRODUCTS: usize = 5;

impl Statistic {
    pub(super) fn of(function: &AggregateUDF) -> Option<Statistic> {
        let function = function.inner();
        Some(match () {
            () if function.is::<VarianceSample>() => Statistic::Variance { sample: true },
            () if function.is::<VariancePopulation>() => Statistic::Variance { sample: false },
            () if function.is::<Stddev>() => Statistic::Deviation { sample: true },
            () if function.is::<StddevPop>() => Statistic::Deviation { sample: false },
            () if function.is::<CovarianceSample>() => Statistic::Covariance { sample: true },
            () if function.is::<CovariancePopulation>() => Statistic::Covariance { sample: false },
            () if function.is::<Correlation>() => Statistic::Correlation,
            () => return None,
        })
    }

    /// The fields of the moments state that are DataFusion's intermediate state, in its order.
    pub(super) fn state_fields(self) -> &'static [usize] {
        match self {
            Statistic::Variance { .. } | Statistic::Deviation { .. } => &[COUNT, MEAN_X, M2_X],
            Statistic::Covariance { .. } => &[COUNT, MEAN_X, MEAN_Y, PRODUCTS],
            Statistic::Correlation => &[COUNT, MEAN_X, M2_X, MEAN_Y, M2_Y, PRODUCTS],
        }
    }

    fn fields(self) -> usize {
        match self {
            Statistic::Variance { .. } | Statistic::Deviation { .. } => 3,
            Statistic::Covariance { .. } | Statistic::Correlation => 6,
        }
    }

    /// What a row merges into the state: one of its values, or a state. Nothing if it does not count.
    pub(super) fn merged(self, args: &[Sql], counts: Option<&Expr>, merges: bool) -> Result<Expr> {
        let or_zero = |value: Expr| match counts {
            Some(counts) => ir::select(counts.clone(), value, ir::f64(0.0)),
            None => value,
        };
        let mut fields = vec![ir::f64(0.0); self.fields()];
        let places = if merges { self.state_fields() } else { &[COUNT, MEAN_X, MEAN_Y][..=args.len().min(2)] };
        let mut values: Vec<Expr> = args.iter().map(|arg| arg.value.clone()).collect();
        match values.first_mut() {
            Some(count) if merges => *count = ir::cast(count.clone(), ScalarKind::F64),
            _ => values.insert(0, ir::f64(1.0)),
        }
        if values.len() != places.len() || values.iter().any(|value| value.ty != Type::F64) {
            return Err(Unsupported::new("statistics", "of other columns than floats of 64 bits"));
        }
        for (place, value) in places.iter().zip(values) {
            fields[*place] = or_zero(value);
        }
        Ok(ir::strct(fields))
    }

    /// The columns of DataFusion's intermediate state, which are never null.
    pub(super) fn state(self, state: &Expr) -> Vec<Sql> {
        let column = |field: &usize| match *field {
            COUNT => ir::cast(ir::field(state.clone(), COUNT), ScalarKind::U64),
            field => ir::field(state.clone(), field),
        };
        self.state_fields().iter().map(column).map(Sql::required).collect()
    }

    /// The result of a state; `whole` if it is not that of a group, where DataFusion says that one value has no
    /// variance whatever it is.
    pub(super) fn result(self, block: &mut Block<'_>, state: &Expr, whole: bool) -> Result<Sql> {
        let part = |field| ir::field(state.clone(), field);
        let count = block.share("count", part(COUNT));
        let at_least = |least: f64| ir::binary(BinaryOp::Ge, count.clone(), ir::f64(least));
        let (sum, sample) = match self {
            Statistic::Variance { sample } | Statistic::Deviation { sample } => (part(M2_X), sample),
            Statistic::Covariance { sample } => (part(PRODUCTS), sample),
            Statistic::Correlation => return correlation(block, state, &count),
        };
        let valid = block.share("valid", at_least(if sample { 2.0 } else { 1.0 }));
        let rows = if sample { ir::sub(count.clone(), ir::f64(1.0)) } else { count.clone() };
        let mut value = ir::div(sum, rows);
        if whole && !sample && !matches!(self, Statistic::Covariance { .. }) {
            value = ir::select(at_least(2.0), value, ir::f64(0.0));
        }
        if matches!(self, Statistic::Deviation { .. }) {
            value = ir::unary(UnaryOp::Sqrt, value);
        }
        let value = block.share("statistic", ir::select(valid.clone(), value, ir::f64(0.0)));
        Ok(Sql { value, valid: Some(valid) })
    }
}

/// NaN if both columns have one; null if one of them has, or does not vary, or if there are fewer than two rows.
fn correlation(block: &mut Block<'_>, state: &Expr, count: &Expr) -> Result<Sql> {
    let part = |field| ir::field(state.clone(), field);
    let is_nan = |value: Expr| ir::binary(BinaryOp::Ne, value.clone(), value);
    let (x, y) = (block.share("mean", part(MEAN_X)), block.share("mean", part(MEAN_Y)));
    let (x, y) = (block.share("nan", is_nan(x)), block.share("nan", is_nan(y)));
    let both = block.share("nans", ir::and(x.clone(), y.clone()));
    let deviation = |m2| ir::unary(UnaryOp::Sqrt, ir::div(part(m2), count.clone()));
    let (x_varies, y_varies) = (block.share("deviation", deviation(M2_X)), block.share("deviation", deviation(M2_Y)));
    let value = ir::div(ir::div(ir::div(part(PRODUCTS), count.clone()), x_varies.clone()), y_varies.clone());
    let is_zero = |value: Expr| ir::binary(BinaryOp::Eq, value, ir::f64(0.0));
    let none =
        [ir::or(x, y), ir::binary(BinaryOp::Lt, count.clone(), ir::f64(2.0)), is_zero(x_varies), is_zero(y_varies)];
    let none = none.into_iter().reduce(ir::or).expect("four conditions");
    let valid = block.share("valid", ir::or(both.clone(), ir::not(none)));
    let value = ir::select(both, ir::f64(f64::NAN), value);
    let value = block.share("correlation", ir::select(valid.clone(), value, ir::f64(0.0)));
    Ok(Sql { value, valid: Some(valid) })
}
