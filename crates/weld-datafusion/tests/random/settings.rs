//! Random settings of a session, DataFusion's and Weld's: every switch, every optimizer pass.

use std::fmt;

use datafusion::prelude::SessionContext;
use weld_test::generate::rng::Rng;

/// Names and values, in the order in which they are set.
#[derive(Clone, Debug)]
pub(crate) struct Settings(Vec<(String, String)>);

const SWITCHES: [&str; 15] = [
    "weld.filter",
    "weld.projection",
    "weld.aggregate",
    "weld.join",
    "weld.evaluate",
    "weld.window",
    "weld.sort",
    "weld.scan",
    "weld.drop_exchanges",
    "weld.plans",
    "weld.distinct_aggregates",
    "weld.outer_joins",
    "weld.join_order",
    "weld.common_subplans",
    "weld.key_filters",
];

/// DataFusion's that change what a plan looks like, with the values that they take.
const PLANNING: [(&str, &[&str]); 20] = [
    ("datafusion.execution.batch_size", &["2", "10", "64", "8192", "8192"]),
    ("datafusion.execution.target_partitions", &["1", "1", "3"]),
    ("datafusion.execution.parquet.pushdown_filters", &["false", "false", "true"]),
    ("datafusion.optimizer.repartition_joins", &["true", "false"]),
    ("datafusion.optimizer.repartition_aggregations", &["true", "true", "false"]),
    ("datafusion.optimizer.repartition_file_min_size", &["0", "10000000"]),
    ("datafusion.optimizer.hash_join_single_partition_threshold", &["0", "1000000"]),
    ("datafusion.optimizer.hash_join_single_partition_threshold_rows", &["0", "1000000"]),
    ("datafusion.optimizer.prefer_hash_join", &["true", "true", "true", "false"]),
    ("datafusion.optimizer.enable_dynamic_filter_pushdown", &["true", "true", "false"]),
    ("datafusion.optimizer.enable_topk_aggregation", &["true", "true", "false"]),
    ("datafusion.optimizer.enable_window_topn", &["false", "false", "true"]),
    ("datafusion.optimizer.enable_window_limits", &["true", "true", "false"]),
    ("datafusion.optimizer.repartition_windows", &["true", "true", "false"]),
    ("datafusion.optimizer.repartition_sorts", &["true", "true", "false"]),
    ("datafusion.optimizer.prefer_existing_sort", &["false", "false", "true"]),
    ("datafusion.optimizer.filter_null_join_keys", &["false", "false", "true"]),
    ("datafusion.optimizer.enable_physical_uncorrelated_scalar_subquery", &["true", "true", "false"]),
    ("datafusion.execution.parquet.reorder_filters", &["false", "true"]),
    ("datafusion.execution.skip_partial_aggregation_probe_rows_threshold", &["100000", "0"]),
];

impl Settings {
    pub(crate) fn new(rng: &mut Rng) -> Settings {
        let mut all: Vec<(String, String)> =
            PLANNING.iter().map(|(name, values)| ((*name).to_owned(), rng.pick(values).to_owned())).collect();
        for name in SWITCHES {
            all.push((name.to_owned(), (!rng.one_in(12)).to_string()));
        }
        // Its own comparison must find no more differences than ours.
        all.push(("weld.verify".to_owned(), rng.one_in(12).to_string()));
        // Tables are small.
        all.push(("weld.common_subplans_min_rows".to_owned(), "0".to_owned()));
        all.push(("weld.radix_min_groups".to_owned(), rng.pick(&["0", "1", "1", "20", "32768"]).to_owned()));
        // Mostly everything is compiled, over however few rows; what is not has its answers to give, too.
        all.push(("weld.compile_min_rows".to_owned(), rng.pick(&["0", "0", "0", "0", "100", "1000000000"]).to_owned()));
        // LLVM's passes are its authors' to test: what they cost is paid rarely.
        all.push((
            "weld.opt_level".to_owned(),
            rng.pick(&["0", "0", "0", "0", "0", "0", "0", "0", "1", "2"]).to_owned(),
        ));
        let passes: Vec<&str> = weld_core::opt::pass_names().into_iter().collect();
        let left_out: Vec<&str> = (0..rng.pick(&[0, 0, 0, 1, 2])).map(|_| rng.pick(&passes)).collect();
        all.push((PASSES.to_owned(), left_out.join(",")));
        Settings(all)
    }

    /// Sets them, Weld's own only where they are known.
    pub(crate) fn apply(&self, context: &SessionContext, weld: bool) {
        let state = context.state_ref();
        let mut state = state.write();
        for (name, value) in self.0.iter().filter(|(name, _)| weld || !name.starts_with("weld.")) {
            state.config_mut().options_mut().set(name, value).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }

    pub(crate) fn leaves_out_passes(&self) -> bool {
        self.0.iter().any(|(name, value)| name == PASSES && !value.is_empty())
    }

    /// With one setting less.
    pub(crate) fn fewer(&self) -> Vec<Settings> {
        let without =
            |index| Settings(self.0.iter().enumerate().filter(|(i, _)| *i != index).map(|(_, s)| s.clone()).collect());
        (0..self.0.len()).filter(|&index| self.0[index].0 != "weld.opt_level").map(without).collect()
    }
}

const PASSES: &str = "weld.disabled_passes";

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = self.0.iter().map(|(name, value)| format!("SET {name} = '{value}'"));
        f.write_str(&set.collect::<Vec<_>>().join("; "))
    }
}
