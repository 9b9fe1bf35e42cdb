//! The settings under `weld.*`: `SET weld.enabled = false` gives stock DataFusion back.
//!
//! ```sql
//! SET weld.join = false;                   -- leave joins to DataFusion
//! SET weld.disabled_passes = 'fuse-loops'; -- comma-separated names of optimizer passes
//! ```

use std::any::Any;
use std::fmt;
use std::str::FromStr;

use datafusion::common::config::{ConfigEntry, ConfigExtension, ConfigField, ConfigOptions, ExtensionOptions, Visit};
use datafusion::common::{Result, config_err};
use weld_arrow::check::Depth;
use weld_codegen::FastPath;
use weld_core::opt;
use weld_plans::PlanOptions;

/// A struct of settings. DataFusion's `extensions_options` makes one whose entries have no prefix: SHOW and
/// `information_schema.df_settings`, which go by the entries, would not know a setting by its name.
macro_rules! settings {
    (
        $(#[doc = $about:tt])*
        pub struct $options:ident {
            $($(#[doc = $description:tt])* pub $name:ident: $type:ty, default = $default:expr)*
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug)]
        #[non_exhaustive]
        pub struct $options {
            $($(#[doc = $description])* pub $name: $type,)*
        }

        impl Default for $options {
            fn default() -> Self {
                $options { $($name: $default,)* }
            }
        }

        impl ExtensionOptions for $options {
            fn as_any(&self) -> &dyn Any {
                self
            }

            fn as_any_mut(&mut self) -> &mut dyn Any {
                self
            }

            fn cloned(&self) -> Box<dyn ExtensionOptions> {
                Box::new(self.clone())
            }

            fn set(&mut self, key: &str, value: &str) -> Result<()> {
                let (name, field) = key.split_once('.').unwrap_or((key, ""));
                match name {
                    $(stringify!($name) => self.$name.set(field, value),)*
                    _ => config_err!("there is no setting {}.{name}", $options::PREFIX),
                }
            }

            fn entries(&self) -> Vec<ConfigEntry> {
                let mut entries = Entries(Vec::new());
                $(
                    let key = format!("{}.{}", $options::PREFIX, stringify!($name));
                    self.$name.visit(&mut entries, &key, concat!($($description),*).trim());
                )*
                entries.0
            }
        }
    };
}

struct Entries(Vec<ConfigEntry>);

impl Visit for Entries {
    fn some<V: fmt::Display>(&mut self, key: &str, value: V, description: &'static str) {
        self.0.push(ConfigEntry { key: key.to_owned(), value: Some(value.to_string()), description });
    }

    fn none(&mut self, key: &str, description: &'static str) {
        self.0.push(ConfigEntry { key: key.to_owned(), value: None, description });
    }
}

settings! {
    /// What the rule may compile, and how.
    pub struct WeldOptions {
        /// Compile what can be compiled. Off: plans stay as DataFusion made them.
        pub enabled: bool, default = true
        /// Compile filters.
        pub filter: bool, default = true
        /// Compile projections.
        pub projection: bool, default = true
        /// Compile aggregates.
        pub aggregate: bool, default = true
        /// Compile hash, nested-loop and cross joins of every type.
        pub join: bool, default = true
        /// Compile operators whose expressions do not all lower: DataFusion evaluates the others below them.
        pub evaluate: bool, default = true
        /// Evaluate expressions of one column of texts once for each entry of its dictionary, where the project's scan
        /// reads it.
        pub by_entry: bool, default = true
        /// Evaluate windows over sorted rows a chunk at a time, in an operator of the project's own that is not
        /// compiled.
        pub window: bool, default = true
        /// Sort by normalised keys, in an operator of the project's own that is not compiled.
        pub sort: bool, default = true
        /// Read Parquet with the project's own scan, and encoded tables as they are stored where a compiled pipeline
        /// sits on them.
        pub scan: bool, default = true
        /// Tables in memory keep their columns encoded: those that CREATE TABLE makes in
        /// [`execute_statement`](crate::execute_statement), which `weld sql` calls.
        pub encode_tables: bool, default = false
        /// Rewrite plans. Off: operators are as DataFusion planned them, whoever runs them.
        pub plans: bool, default = true
        /// Split an aggregate with `count(DISTINCT ..)` beside others into two: one groups by the distinct values as
        /// well, one counts.
        pub distinct_aggregates: bool, default = true
        /// Keep distinct integers in sets of one aggregate, instead of two aggregates, where the sets are small.
        pub distinct_sets: bool, default = true
        /// Turn outer joins into inner joins where the rows that they add are dropped above, into anti joins where all
        /// others are.
        pub outer_joins: bool, default = true
        /// Order joins by the rows that they are expected to give, whoever runs them.
        pub join_order: bool, default = true
        /// Where joins are ordered, run inner joins as semi joins if nobody notices how often a row matches: below DISTINCT,
        /// `min`, `max` and the like, and where another semi join looks for a match.
        pub semi_joins: bool, default = true
        /// Execute equal parts of a plan once, and keep their rows for all who read them.
        pub common_subplans: bool, default = true
        /// A subplan is executed once only if that is expected to spare operators at least so many rows.
        pub common_subplans_min_rows: usize, default = 2000
        /// Execute subplans that differ only in what their filters compare with once, over the rows of all, and filter
        /// again for each reader; make aggregates without groups over the same tables one, whose functions have
        /// filters.
        pub similar_subplans: bool, default = true
        /// Drop rows that no join will match before other operators see them, by the keys of build sides.
        pub key_filters: bool, default = true
        /// Drop rows behind the first ones of a sort with a limit by the first of its keys, where the others are of another
        /// table.
        pub first_key_filters: bool, default = true
        /// Where a filter keeps the first rows of each window partition, drop others before they are sorted.
        pub window_group_limits: bool, default = true
        /// Intern texts that rows are grouped by after joins, of build sides and of columns that have few: groups are
        /// found by their addresses.
        pub intern: bool, default = true
        /// Take hash exchanges out where a compiled pipeline does not need them.
        pub drop_exchanges: bool, default = true
        /// Check arrays before compiled code reads them: always, never, or (auto) that they lead nowhere else, where
        /// they do not come from DataFusion's own readers, such as arrays that another library has handed over.
        pub validate_arrays: Validation, default = Validation::Auto
        /// LLVM's effort: 0 (compiles fastest), 1, or 2 (runs fastest).
        pub opt_level: Effort, default = Effort(2)
        /// A pipeline over fewer rows than this, for every 10 ms that compiling is expected to take, runs on the
        /// operators that it replaced, unless its code is known. Rows that the scan is expected to drop do not count;
        /// others count for a quarter to two, by the size of the program. 0: everything is compiled.
        pub compile_min_rows: usize, default = 10_000_000
        /// A query whose tables have fewer rows than this, all together, is left to DataFusion, unless they go through
        /// windows, are put in order or make many pairs: lowering it would not pay. 0, or `compile_min_rows` of 0: no
        /// query is.
        pub plan_min_rows: usize, default = 200_000
        /// From so many groups in a partition on, each range of their keys' hashes has a table of its own. 0: one table
        /// has all.
        pub radix_min_groups: usize, default = 32_768
        /// Which code runs: auto (cheap code first, optimised code where it repays its making), optimised, or
        /// alternate (both in turn, for tests).
        pub tiers: TierChoice, default = TierChoice::Auto
        /// A folder where machine code is kept for other processes of the user, who alone may write into it; empty:
        /// code is kept in memory only.
        pub cache_dir: AtStart<String>, default = AtStart::default()
        /// How many bytes are kept there at most; what was not used for longest goes first.
        pub cache_dir_size: AtStart<u64>, default = AtStart::new(256 << 20)
        /// Names of Weld's optimizer passes, and of ways of running loops, to leave out, separated by commas.
        pub disabled_passes: PassNames, default = PassNames::default()
        /// Run DataFusion's own plan too, compare the results and fail with the first difference.
        pub verify: bool, default = false
        /// Verify the program after every optimizer pass.
        pub verify_passes: bool, default = cfg!(debug_assertions)
    }
}

impl ConfigExtension for WeldOptions {
    const PREFIX: &'static str = "weld";
}

impl WeldOptions {
    /// The options of a session; the defaults if it has none.
    pub fn of(config: &ConfigOptions) -> WeldOptions {
        config.extensions.get::<WeldOptions>().cloned().unwrap_or_default()
    }

    /// Gives the setting of this key its default again; `None` if it is not one of these.
    pub(crate) fn reset(&mut self, key: &str) -> Option<Result<()>> {
        let default = WeldOptions::default().entries().into_iter().find(|entry| entry.key == key)?;
        let name = key.strip_prefix(WeldOptions::PREFIX)?.strip_prefix('.')?;
        Some(self.set(name, &default.value.unwrap_or_default()))
    }
}

/// Which rewrites of plans a session wants.
pub(crate) fn plan_options(config: &ConfigOptions) -> PlanOptions {
    let options = WeldOptions::of(config);
    let on = options.enabled && options.plans;
    PlanOptions {
        distinct_aggregates: on && options.distinct_aggregates,
        distinct_sets: on && options.distinct_sets,
        outer_joins: on && options.outer_joins,
        join_order: on && options.join_order,
        semi_joins: on && options.semi_joins,
        common_subplans: (on && options.common_subplans).then_some(options.common_subplans_min_rows),
        similar_subplans: on && options.similar_subplans,
        key_filters: on && options.key_filters,
        careful_pushdown: options.enabled,
        doubtful_orders: options.enabled,
    }
}

/// What is set when a session is built, by its host, and by no statement: code from a folder is executed.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct AtStart<T> {
    value: T,
    is_fixed: bool,
}

impl<T> AtStart<T> {
    /// A value that may still be changed, until a session is built with it.
    pub fn new(value: T) -> AtStart<T> {
        AtStart { value, is_fixed: false }
    }

    pub fn value(&self) -> &T {
        &self.value
    }

    /// From here on it stays as it is.
    pub(crate) fn fix(&mut self) {
        self.is_fixed = true;
    }
}

impl<T: FromStr + fmt::Display> ConfigField for AtStart<T> {
    fn visit<V: Visit>(&self, visitor: &mut V, key: &str, description: &'static str) {
        visitor.some(key, &self.value, description);
    }

    fn set(&mut self, _: &str, value: &str) -> Result<()> {
        match value.trim().parse() {
            _ if self.is_fixed => return config_err!("this is set when a session is built: it cannot become {value}"),
            Ok(value) => self.value = value,
            Err(_) => return config_err!("a setting of {} cannot be {value}", self.value),
        }
        Ok(())
    }
}

/// How hard LLVM tries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effort(u8);

impl Effort {
    /// 0, 1 or 2.
    pub fn level(self) -> u8 {
        self.0
    }
}

impl ConfigField for Effort {
    fn visit<V: Visit>(&self, visitor: &mut V, key: &str, description: &'static str) {
        visitor.some(key, self.0, description);
    }

    fn set(&mut self, _: &str, value: &str) -> Result<()> {
        match value.trim().parse() {
            Ok(level @ 0..=2) => self.0 = level,
            _ => return config_err!("weld.opt_level is 0, 1 or 2, not {value}"),
        }
        Ok(())
    }
}

/// When arrays are checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Validation {
    Auto,
    Always,
    Never,
}

impl Validation {
    /// How arrays are checked that are `foreign` or not.
    pub(crate) fn of(self, foreign: impl FnOnce() -> bool) -> Depth {
        match self {
            Validation::Auto if foreign() => Depth::Ranges,
            Validation::Auto | Validation::Never => Depth::Nothing,
            Validation::Always => Depth::Text,
        }
    }
}

impl fmt::Display for Validation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Validation::Auto => "auto",
            Validation::Always => "always",
            Validation::Never => "never",
        })
    }
}

impl ConfigField for Validation {
    fn visit<V: Visit>(&self, visitor: &mut V, key: &str, description: &'static str) {
        visitor.some(key, self, description);
    }

    fn set(&mut self, _: &str, value: &str) -> Result<()> {
        *self = match value.trim().to_ascii_lowercase().as_str() {
            "auto" => Validation::Auto,
            "always" | "true" => Validation::Always,
            "never" | "false" => Validation::Never,
            _ => return config_err!("weld.validate_arrays is auto, always or never, not {value}"),
        };
        Ok(())
    }
}

/// Which of the two efforts at compiling runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum TierChoice {
    #[default]
    Auto,
    Optimised,
    Alternate,
}

impl TierChoice {
    const ALL: [(&str, TierChoice); 3] =
        [("auto", TierChoice::Auto), ("optimised", TierChoice::Optimised), ("alternate", TierChoice::Alternate)];
}

impl fmt::Display for TierChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = TierChoice::ALL.iter().find(|(_, choice)| choice == self).map_or("", |(name, _)| name);
        f.write_str(name)
    }
}

impl ConfigField for TierChoice {
    fn visit<V: Visit>(&self, visitor: &mut V, key: &str, description: &'static str) {
        visitor.some(key, self, description);
    }

    fn set(&mut self, _: &str, value: &str) -> Result<()> {
        let word = value.trim();
        match TierChoice::ALL.iter().find(|(name, _)| *name == word) {
            Some((_, choice)) => *self = *choice,
            None => return config_err!("weld.tiers is auto, optimised or alternate, not {value}"),
        }
        Ok(())
    }
}

/// Names of optimizer passes.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct PassNames(Vec<String>);

impl PassNames {
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

impl fmt::Display for PassNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(","))
    }
}

impl ConfigField for PassNames {
    fn visit<V: Visit>(&self, visitor: &mut V, key: &str, description: &'static str) {
        visitor.some(key, self, description);
    }

    fn set(&mut self, _: &str, value: &str) -> Result<()> {
        let mut known = opt::pass_names();
        known.extend(FastPath::ALL.map(FastPath::name));
        let names: Vec<String> =
            value.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
        if let Some(unknown) = names.iter().find(|name| !known.contains(name.as_str())) {
            let known = Vec::from_iter(known).join(", ");
            return config_err!("weld.disabled_passes: there is no pass {unknown}; the passes are {known}");
        }
        self.0 = names;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_found_by_name() {
        let mut config = ConfigOptions::new();
        config.extensions.insert(WeldOptions::default());
        config.set("weld.join", "false").expect("a known setting");
        config.set("weld.disabled_passes", "fuse-loops, , predicate, few-groups").expect("a known setting");
        let options = WeldOptions::of(&config);
        assert!(options.enabled && !options.join);
        assert_eq!(options.disabled_passes.iter().collect::<Vec<_>>(), ["fuse-loops", "predicate", "few-groups"]);
        config.set("weld.opt_level", "0").expect("a known level");
        assert_eq!(WeldOptions::of(&config).opt_level.level(), 0);
        config.set("weld.tiers", "alternate").expect("a known choice");
        config.set("weld.compile_min_rows", "0").expect("a number");
        let options = WeldOptions::of(&config);
        assert_eq!((options.tiers, options.compile_min_rows), (TierChoice::Alternate, 0));
        assert_eq!(options.tiers.to_string(), "alternate");
        for (name, value) in [
            ("tiers", "none"),
            ("opt_level", "3"),
            ("opt_level", "-1"),
            ("opt_level", "x"),
            ("disabled_passes", "fuse"),
        ] {
            let error = config.set(&format!("weld.{name}"), value).expect_err("no such value").to_string();
            assert!(error.contains(value) && error.contains(name), "{error}");
        }
        assert!(config.set("weld.no_such_setting", "1").is_err());
        config.set("weld.cache_dir", "/tmp/weld").expect("no session has it yet");
        assert!(config.set("weld.cache_dir_size", "-1").is_err());
        assert_eq!(WeldOptions::of(&config).cache_dir.value(), "/tmp/weld");
    }
}
