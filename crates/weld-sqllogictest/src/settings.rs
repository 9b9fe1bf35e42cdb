//! At which batch size and on how many partitions the files run.

use std::fmt;
use std::str::FromStr;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Setting {
    pub(crate) batch_rows: usize,
    pub(crate) partitions: usize,
}

impl Setting {
    /// DataFusion's own setting first.
    pub(crate) fn all() -> Vec<Setting> {
        let pairs = [(8192, 4), (8192, 1), (3, 4), (3, 1)];
        pairs.into_iter().map(|(batch_rows, partitions)| Setting { batch_rows, partitions }).collect()
    }

    /// Whether it is what the files' expectations were written for.
    pub(crate) fn is_usual(self) -> bool {
        self == Setting { batch_rows: 8192, partitions: 4 }
    }
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Setting, String> {
        let number = |text: &str| text.parse().ok().filter(|&number: &usize| number > 0);
        let setting = text.split_once('x').and_then(|(batch_rows, partitions)| {
            Some(Setting { batch_rows: number(batch_rows)?, partitions: number(partitions)? })
        });
        setting.ok_or_else(|| format!("{text} is not like 8192x4"))
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.batch_rows, self.partitions)
    }
}
