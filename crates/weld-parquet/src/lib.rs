//! A Parquet scan that keeps columns encoded and decodes late.
