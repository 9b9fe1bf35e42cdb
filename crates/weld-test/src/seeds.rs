//! Tests over random programs, each made from a seed: `WELD_SEEDS=1000` tries more, `WELD_SEED=17` one.

/// Checks the programs of `count` seeds, unless the environment says which. `check` says whether a program gives a
/// value rather than an error, or what is wrong, which fails the test.
pub fn check_each(count: u64, check: impl Fn(u64) -> Result<bool, String>) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match number("WELD_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("WELD_SEEDS").unwrap_or(count),
    };
    let (mut values, mut errors) = (0, 0);
    for seed in seeds {
        match check(seed) {
            Ok(true) => values += 1,
            Ok(false) => errors += 1,
            Err(message) => panic!("seed {seed}: {message}"),
        }
    }
    println!("{values} values, {errors} errors");
    assert!(values + errors < 10 || values > errors, "{values} values, {errors} errors");
}
