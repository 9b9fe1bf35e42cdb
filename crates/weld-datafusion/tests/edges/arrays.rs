//! Arrays that nobody has validated, as they come through Arrow's C interface: an error instead of a wild read.

use std::sync::Arc;

use arrow::array::{ArrayRef, ByteView, Int64Array, RecordBatch, StringArray, StringViewArray};
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};

use crate::common::{Engines, config};

/// A batch with a broken column `s` beside a sound one.
fn batch(broken: ArrayRef) -> RecordBatch {
    let k: ArrayRef = Arc::new(Int64Array::from_iter_values(0..broken.len() as i64));
    RecordBatch::try_from_iter_with_nullable([("k", k, true), ("s", broken, true)]).expect("columns of one length")
}

fn broken() -> Vec<(&'static str, ArrayRef)> {
    let text = Buffer::from_slice_ref("a string of more than twelve bytes");
    let view = ByteView { length: 20, prefix: u32::from_le_bytes(*b"a st"), buffer_index: 3, offset: 0 };
    // SAFETY: it is the point of the test that what reads the arrays checks them first.
    unsafe {
        let offsets = OffsetBuffer::new_unchecked(ScalarBuffer::from(vec![0i32, 5, 1_000_000]));
        let strings = StringArray::new_unchecked(offsets, text.clone(), None);
        let views = StringViewArray::new_unchecked(ScalarBuffer::from(vec![view.as_u128(); 2]), vec![text], None);
        vec![("offsets", Arc::new(strings)), ("view", Arc::new(views))]
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_arrays_are_errors() {
    for (what, array) in broken() {
        let engines = Engines::new(config(1));
        engines.table("t", vec![batch(array)]);
        for sql in ["SELECT k + 1, s FROM t WHERE s <> 'x'", "SELECT s, count(*) FROM t WHERE k >= 0 GROUP BY s"] {
            let error = engines.run(sql).await.map(|run| run.rows).expect_err("a broken array");
            assert!(error.contains("column 's' is broken") && error.contains(what), "{error}");
        }
        // What no compiled code reads.
        engines.weld.sql("SET weld.validate_arrays = 'never'").await.expect("a setting");
        assert_eq!(engines.run("SELECT sum(k) FROM t WHERE k >= 0").await.expect("it runs").rows, ["1"]);
    }
}
