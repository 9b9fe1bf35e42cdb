//! Random settings of a session, DataFusion's and Weld's: every switch, every optimizer pass.

use std::fmt;

use datafusion::prelude::SessionContext;
use weld_codegen::FastPath;
use weld_test::generate::rng::Rng;

/// Names and values, in the order in which they are set.
#[derive(Clone, Debug)]
pub(crate) struct Settings(Vec<(String, String)>);

const SWITCHES: [&str; 22] = [
    "weld.filter",
    "weld.projection",
    "weld.aggregate",
    "weld.join",
    "weld.evaluate",
    "weld.by_entry",
    "weld.window",
    "weld.sort",
    "weld.scan",
    "weld.drop_exchanges",
    "weld.intern",
    "weld.plans",
    "weld.distinct_aggregates",
    "weld.distinct_sets",
    "weld.outer_joins",
    "weld.join_order",
    "weld.semi_joins",
    "weld.common_subplans",
    "weld.similar_subplans",
    "weld.key_filters",
    "weld.first_key_filters",
    "weld.window_group_limits",
];

/// DataFusion's that change what a plan looks like, with the values that they take. The size of batches is the first.
const PLANNING: [(&str, &[&str]); 45] = [
    ("datafusion.execution.batch_size", &["2", "10", "64", "8192", "8192"]),
    ("datafusion.execution.target_partitions", &["1", "1", "3"]),
    ("datafusion.execution.time_zone", &["+00:00", "+00:00", "America/New_York"]),
    ("datafusion.execution.skip_partial_aggregation_probe_rows_threshold", &["100000", "0"]),
    ("datafusion.execution.perfect_hash_join_small_build_threshold", &["1024", "1024", "0"]),
    ("datafusion.execution.split_file_groups_by_statistics", &["false", "false", "true"]),
    ("datafusion.execution.keep_partition_by_columns", &["false", "true"]),
    ("datafusion.execution.enable_migration_aggregate", &["true", "true", "false"]),
    ("datafusion.execution.use_row_number_estimates_to_optimize_partitioning", &["false", "true"]),
    ("datafusion.execution.enforce_batch_size_in_joins", &["false", "true"]),
    ("datafusion.execution.enable_ansi_mode", &["false", "false", "false", "true"]),
    ("datafusion.execution.hash_join_buffering_capacity", &["0", "0", "1000000"]),
    ("datafusion.sql_parser.default_null_ordering", &["nulls_max", "nulls_max", "nulls_min", "nulls_first"]),
    ("datafusion.sql_parser.parse_float_as_decimal", &["false", "false", "true"]),
    ("datafusion.optimizer.repartition_joins", &["true", "false"]),
    ("datafusion.optimizer.repartition_aggregations", &["true", "true", "false"]),
    ("datafusion.optimizer.repartition_file_min_size", &["0", "10000000"]),
    ("datafusion.optimizer.repartition_file_scans", &["true", "true", "false"]),
    ("datafusion.optimizer.preserve_file_partitions", &["0", "0", "1"]),
    ("datafusion.optimizer.hash_join_single_partition_threshold", &["0", "1000000"]),
    ("datafusion.optimizer.hash_join_single_partition_threshold_rows", &["0", "1000000"]),
    ("datafusion.optimizer.hash_join_inlist_pushdown_max_size", &["131072", "0"]),
    ("datafusion.optimizer.hash_join_inlist_pushdown_max_distinct_values", &["150", "2"]),
    ("datafusion.optimizer.prefer_hash_join", &["true", "true", "true", "false"]),
    ("datafusion.optimizer.enable_piecewise_merge_join", &["false", "false", "true"]),
    ("datafusion.optimizer.enable_dynamic_filter_pushdown", &["true", "true", "false"]),
    ("datafusion.optimizer.enable_topk_dynamic_filter_pushdown", &["true", "true", "false"]),
    ("datafusion.optimizer.enable_join_dynamic_filter_pushdown", &["true", "true", "false"]),
    ("datafusion.optimizer.enable_aggregate_dynamic_filter_pushdown", &["true", "true", "false"]),
    ("datafusion.optimizer.enable_topk_aggregation", &["true", "true", "false"]),
    ("datafusion.optimizer.enable_topk_repartition", &["true", "true", "false"]),
    ("datafusion.optimizer.enable_distinct_aggregation_soft_limit", &["true", "true", "false"]),
    ("datafusion.optimizer.enable_window_topn", &["false", "false", "true"]),
    ("datafusion.optimizer.enable_window_limits", &["true", "true", "false"]),
    ("datafusion.optimizer.enable_round_robin_repartition", &["true", "true", "false"]),
    ("datafusion.optimizer.enable_sort_pushdown", &["true", "true", "false"]),
    ("datafusion.optimizer.enable_leaf_expression_pushdown", &["true", "true", "false"]),
    ("datafusion.optimizer.enable_unions_to_filter", &["false", "false", "true"]),
    ("datafusion.optimizer.repartition_windows", &["true", "true", "false"]),
    ("datafusion.optimizer.repartition_sorts", &["true", "true", "false"]),
    ("datafusion.optimizer.prefer_existing_sort", &["false", "false", "true"]),
    ("datafusion.optimizer.prefer_existing_union", &["false", "false", "true"]),
    ("datafusion.optimizer.filter_null_join_keys", &["false", "false", "true"]),
    ("datafusion.optimizer.enable_physical_uncorrelated_scalar_subquery", &["true", "true", "false"]),
    ("datafusion.optimizer.use_statistics_registry", &["false", "false", "true"]),
];

/// Those of how tables are registered and files are read, which a table keeps.
const READING: [(&str, &[&str]); 12] = [
    ("datafusion.execution.collect_statistics", &["true", "true", "false"]),
    ("datafusion.execution.parquet.enable_page_index", &["true", "true", "false"]),
    ("datafusion.execution.parquet.pruning", &["true", "true", "false"]),
    ("datafusion.execution.parquet.metadata_size_hint", &["524288", "8", "100"]),
    ("datafusion.execution.parquet.pushdown_filters", &["false", "false", "false", "true"]),
    ("datafusion.execution.parquet.reorder_filters", &["false", "true"]),
    ("datafusion.execution.parquet.force_filter_selections", &["false", "true"]),
    ("datafusion.execution.parquet.schema_force_view_types", &["true", "true", "false"]),
    ("datafusion.execution.parquet.binary_as_string", &["false", "false", "false", "true"]),
    ("datafusion.execution.parquet.bloom_filter_on_read", &["true", "true", "false"]),
    ("datafusion.execution.parquet.skip_metadata", &["true", "true", "false"]),
    ("datafusion.execution.parquet.max_in_list_size", &["20", "2"]),
];

/// A value for each.
fn picked(rng: &mut Rng, settings: &[(&str, &[&str])]) -> Vec<(String, String)> {
    settings.iter().map(|(name, values)| ((*name).to_owned(), rng.pick(values).to_owned())).collect()
}

impl Settings {
    /// What is set before tables are registered.
    pub(crate) fn of_reading(rng: &mut Rng) -> Settings {
        Settings(picked(rng, &READING))
    }

    /// For tables of which some are `large`: stock joins their many equal keys in so many steps as there are batches of
    /// pairs.
    pub(crate) fn new(rng: &mut Rng, large: bool) -> Settings {
        let mut all = picked(rng, &PLANNING);
        if large && all[0].1.len() < 4 {
            all[0].1 = "1000".to_owned();
        }
        for name in SWITCHES {
            all.push((name.to_owned(), (!rng.one_in(12)).to_string()));
        }
        // Its own comparison must find no more differences than ours.
        all.push(("weld.verify".to_owned(), rng.one_in(12).to_string()));
        // Tables are small.
        all.push(("weld.common_subplans_min_rows".to_owned(), "0".to_owned()));
        all.push(("weld.radix_min_groups".to_owned(), rng.pick(&["0", "1", "1", "20", "32768"]).to_owned()));
        // Mostly everything is compiled, over however few rows; what is not has its answers to give, too.
        all.push((
            "weld.compile_min_rows".to_owned(),
            rng.pick(&["0", "0", "0", "0", "0", "1", "100", "1000000000"]).to_owned(),
        ));
        all.push(("weld.plan_min_rows".to_owned(), rng.pick(&["0", "0", "0", "50"]).to_owned()));
        all.push(("weld.tiers".to_owned(), rng.pick(&["auto", "auto", "auto", "optimised", "alternate"]).to_owned()));
        let validation = rng.pick(&["auto", "auto", "auto", "always", "never"]);
        all.push(("weld.validate_arrays".to_owned(), validation.to_owned()));
        // LLVM's passes are its authors' to test: what they cost is paid rarely.
        all.push((
            "weld.opt_level".to_owned(),
            rng.pick(&["0", "0", "0", "0", "0", "0", "0", "0", "1", "2"]).to_owned(),
        ));
        let passes = weld_core::opt::pass_names().into_iter().chain(FastPath::ALL.map(FastPath::name));
        let passes: Vec<&str> = passes.collect();
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
