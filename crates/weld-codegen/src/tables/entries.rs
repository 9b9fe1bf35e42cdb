//! Probes by code: where a key is a text of a chunk's dictionary, a table that does not change is asked once for each
//! entry (see `weld_runtime`'s `probed_entries.rs`):
//!
//! ```text
//! find_row(t, hash_key(t, x.$0), x.$0)        x.$0 is the entry at place p
//! =>
//! word = probed[p]; if the row in word is not known { word = hash and row of the key; probed[p] = word }; the row
//! ```
//!
//! Texts are interned in the same way, as if there were a table for that at address zero.

use inkwell::IntPredicate;
use inkwell::values::{BasicValueEnum, IntValue, PointerValue};
use weld_core::ty::Type;

use super::{BytesVal, DictVal, Res, Tables, Val};
use crate::values::Entry;

/// What is known of the entry that is a key.
struct Known<'c> {
    /// Hash and row, as far as they are known.
    word: IntValue<'c>,
    /// Where both are kept.
    kept: PointerValue<'c>,
}

/// The entry that a key is.
fn entry_of<'v, 'c>(key: &'v Val<'c>) -> Option<&'v Entry<'c>> {
    key.bytes().ok().and_then(BytesVal::entry)
}

impl<'c> Tables<'c, '_> {
    /// The hash of a key. Of an entry it is computed once.
    pub(super) fn hash_of_probe(&mut self, table: DictVal<'c>, ty: &Type, key: &Val<'c>) -> Res<IntValue<'c>> {
        let Some(entry) = entry_of(key).filter(|_| table.lasting) else { return self.hash_key(ty, key) };
        let Known { word, kept } = self.known_of(table.address, entry)?;
        let hash = self.b.build_right_shift(word, self.i64(32), false, "")?;
        let hash = self.b.build_int_truncate(hash, self.unit.ll.i32_type(), "")?;
        self.unless_known(hash, |e| {
            let hash = e.hash_key(ty, key)?;
            let row = e.and(word, e.i64(u32::MAX.into()))?;
            let high = e.b.build_left_shift(e.to_i64(hash)?, e.i64(32), "")?;
            e.store(kept, e.or(high, row)?)?;
            Ok(hash)
        })
    }

    /// Finds the row of a key, whose hash may be known; of an entry once. Zero if there is none.
    pub(super) fn row_of_probe(
        &mut self,
        table: DictVal<'c>,
        (key_ty, value_ty): (&Type, &Type),
        key: &Val<'c>,
        hash: Option<IntValue<'c>>,
    ) -> Res<IntValue<'c>> {
        let find = |e: &mut Self| -> Res<(IntValue<'c>, IntValue<'c>)> {
            let hash = match hash {
                Some(hash) => hash,
                None => e.hash_key(key_ty, key)?,
            };
            Ok((hash, e.find_row(table, key_ty, value_ty, key, hash)?.1))
        };
        let Some(entry) = entry_of(key).filter(|_| table.lasting) else { return Ok(find(self)?.1) };
        let Known { word, kept } = self.known_of(table.address, entry)?;
        // One more than the row, which is zero if there is none.
        let row = self.and(word, self.i64(u32::MAX.into()))?;
        let row = self.unless_known(row, |e| {
            let (hash, row) = find(e)?;
            let (row, one) = (e.and(row, e.i64(u32::MAX.into()))?, e.i64(1));
            let high = e.b.build_left_shift(e.to_i64(hash)?, e.i64(32), "")?;
            let row = e.add(row, one)?;
            // A number that leaves no room is looked for each time.
            let low = e.and(row, e.i64(u32::MAX.into()))?;
            e.store(kept, e.or(high, low)?)?;
            Ok(row)
        })?;
        self.sub(row, self.i64(1))
    }

    /// What `find` gives for bytes, which is not zero; for an entry of a dictionary it is asked once.
    pub(crate) fn once_an_entry(
        &mut self,
        bytes: &BytesVal<'c>,
        find: impl FnOnce(&mut Self) -> Res<IntValue<'c>>,
    ) -> Res<IntValue<'c>> {
        let Some(entry) = bytes.entry() else { return find(self) };
        let Known { word, kept } = self.known_of(self.null(), entry)?;
        self.unless_known(word, |e| {
            let found = find(e)?;
            e.store(kept, found)?;
            Ok(found)
        })
    }

    /// A number that is not zero, or else what `find` gives.
    fn unless_known(
        &mut self,
        number: IntValue<'c>,
        find: impl FnOnce(&mut Self) -> Res<IntValue<'c>>,
    ) -> Res<IntValue<'c>> {
        let (new, done) = (self.new_block("entry"), self.new_block("known"));
        let from = self.current_block()?;
        let is_new = self.cmp(IntPredicate::EQ, number, number.get_type().const_zero())?;
        self.branch_if(is_new, new, done)?;
        self.at(new);
        let found = find(self)?;
        let end = self.current_block()?;
        self.branch(done)?;
        self.at(done);
        let phi = self.b.build_phi(number.get_type(), "")?;
        phi.add_incoming(&[(&number, from), (&found, end)]);
        Ok(phi.as_basic_value().into_int_value())
    }

    /// What probes of a table have found for an entry.
    fn known_of(&mut self, table: PointerValue<'c>, entry: &Entry<'c>) -> Res<Known<'c>> {
        let probed = self.probed(table, entry)?;
        let none = self.b.build_is_null(probed, "")?;
        // Where nothing is kept, the first of two words is zero, and the second is written to.
        let unkept = self.zeroed(16, "unkept")?;
        let place = self.element_ptr(self.unit.i64_type().into(), probed, self.load_code(&entry.column, entry.row)?)?;
        let read = self.choose(none, unkept, place)?.into_pointer_value();
        let kept = self.choose(none, self.offset(unkept, 8)?, place)?.into_pointer_value();
        Ok(Known { word: self.load_i64(read)?, kept })
    }

    /// The words of all entries, or null: asked of the runtime when the first row of a chunk needs them.
    fn probed(&mut self, table: PointerValue<'c>, Entry { column, .. }: &Entry<'c>) -> Res<PointerValue<'c>> {
        // A dictionary means another one where nulls move its codes by one.
        let dictionary = column.dictionary_number().unwrap_or_else(|| self.i64(0));
        let dictionary = self.mul(dictionary, self.i64(if column.is_nullable() { -1 } else { 1 }))?;
        let asked = self.zeroed(16, "probed")?;
        let (ask, done) = (self.new_block("ask"), self.new_block("asked"));
        let is_other = self.cmp(IntPredicate::NE, self.load_i64(asked)?, dictionary)?;
        self.branch_if_rare(is_other, ask, done)?;
        self.at(ask);
        let (number, places) = (self.i64(column.number().into()), self.places(column)?);
        let args = [self.run.into(), table.into(), number.into(), dictionary.into(), places.into()];
        let words = self.call_seldom("weld_probed_entries", &args)?;
        self.store(asked, dictionary)?;
        self.store(self.offset(asked, 8)?, words)?;
        self.branch(done)?;
        self.at(done);
        self.load_ptr(self.offset(asked, 8)?)
    }

    /// Memory of the function that is zero when it is called.
    fn zeroed(&self, bytes: u64, name: &str) -> Res<PointerValue<'c>> {
        let slot = self.alloca(bytes, name)?;
        self.in_entry(|b| {
            let zero: BasicValueEnum<'c> = self.unit.ll.i8_type().array_type(bytes as u32).const_zero().into();
            Ok(b.build_store(slot, zero)?)
        })?;
        Ok(slot)
    }
}
