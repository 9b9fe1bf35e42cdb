//! The settings under `weld.*`: `SET weld.enabled = false` gives stock DataFusion back.
//!
//! ```sql
//! SET weld.join = false;             -- leave hash joins to DataFusion
//! SET weld.disabled_passes = 'fuse'; -- comma-separated names of optimizer passes
//! ```

use datafusion::common::config::{ConfigExtension, ConfigOptions};
use datafusion::common::extensions_options;

extensions_options! {
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
        /// Compile inner hash joins.
        pub join: bool, default = true
        /// Read Parquet with the project's own scan where a compiled pipeline sits on it.
        pub scan: bool, default = true
        /// Take hash exchanges out where a compiled pipeline does not need them.
        pub drop_exchanges: bool, default = true
        /// LLVM's effort: 0 (compiles fastest), 1, or 2 (runs fastest).
        pub opt_level: u8, default = 2
        /// Names of Weld's optimizer passes to leave out, separated by commas.
        pub disabled_passes: String, default = String::new()
        /// Verify the program after every optimizer pass.
        pub verify: bool, default = cfg!(debug_assertions)
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

    /// The names in `disabled_passes`.
    pub fn disabled_pass_names(&self) -> impl Iterator<Item = &str> {
        self.disabled_passes.split(',').map(str::trim).filter(|name| !name.is_empty())
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
        config.set("weld.disabled_passes", "fuse, , narrow").expect("a known setting");
        let options = WeldOptions::of(&config);
        assert!(options.enabled && !options.join);
        assert_eq!(options.disabled_pass_names().collect::<Vec<_>>(), ["fuse", "narrow"]);
        assert!(config.set("weld.no_such_setting", "1").is_err());
    }
}
