"""Writes the files that `benches/writers.rs` reads: one table, as several writers store it by default.

    python3 -m venv venv && venv/bin/pip install pyarrow duckdb polars && venv/bin/python writers.py FOLDER [ROWS]

The table is like TPC-DS's store_sales: surrogate keys with 4.5 % nulls, decimals of seven digits, and columns with other
shares of nulls, in runs and at random.
"""

import pathlib
import sys

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

folder = pathlib.Path(sys.argv[1])
rows = int(sys.argv[2]) if len(sys.argv) > 2 else 500_000
folder.mkdir(parents=True, exist_ok=True)

connection = duckdb.connect()
connection.execute("set threads = 1; select setseed(0.25)")
# A null now and then: `h` are independent hashes of the row.
few = lambda k, value: f"case when hash(i * 31 + {k}) % 1000 < 45 then null else {value} end"
rnd = lambda k, n: f"(hash(i * 17 + {k}) % {n})"
connection.execute(
    f"""create table sales as select
    ({few(1, f"2450816 + {rnd(1, 1823)}")})::integer as date_sk,
    ({few(2, f"1 + {rnd(2, 18000)}")})::integer as item_sk,
    ({few(3, f"1 + {rnd(3, 100000)}")})::integer as customer_sk,
    (i // 12)::bigint as ticket,
    (2450816 + i * 1823 // {rows})::integer as day_sk,
    ({few(4, f"1 + {rnd(4, 100)}")})::integer as quantity,
    ({few(5, f"{rnd(5, 20000)} / 100.0")})::decimal(7, 2) as list_price,
    ({few(6, f"{rnd(6, 2000000)} / 100.0 - 10000")})::decimal(7, 2) as net_profit,
    ({few(7, f"{rnd(7, 2000000)} / 100.0")})::decimal(15, 2) as amount,
    (case when {rnd(8, 2)} = 0 then null else {rnd(9, 1000)} end)::integer as half,
    (case when hash(i // 2000) % 2 = 0 then null else {rnd(10, 1000)} end)::integer as runs,
    ({rnd(11, 1 << 40)})::bigint as wide,
    ({few(12, f"{rnd(12, 1 << 40)}")})::bigint as wide_nulls,
    ({few(13, f"{rnd(13, 1000000)} / 7.0")})::double as ratio,
    ({few(14, f"date '1998-01-01' + {rnd(14, 2000)}::integer")})::date as day,
    ({few(15, f"['AIR', 'RAIL', 'TRUCK', 'SHIP', 'FOB', 'MAIL', 'REG AIR'][1 + {rnd(15, 7)}::integer]")}) as mode,
    ({few(16, f"'customer#' || {rnd(16, 1 << 40)}")}) as note,
    'clerk ' || {rnd(17, 1000)} as clerk,
    ({few(18, f"{rnd(18, 2)} = 0")}) as flag,
    null::integer as nothing
    from range({rows}) t(i)"""
)

for name, options in {
    "duckdb_default": "",
    "duckdb_v2_zstd": "compression zstd, parquet_version v2",
    "duckdb_v2_plain": "compression uncompressed, parquet_version v2, dictionary_size_limit 1",
    "duckdb_small_groups": "row_group_size 2048",
}.items():
    options = ", ".join(filter(None, ["format parquet", options]))
    connection.execute(f"copy sales to '{folder}/{name}.parquet' ({options})")

table = connection.sql("select * from sales").to_arrow_table()
pq.write_table(table, folder / "pyarrow_default.parquet")
pq.write_table(table, folder / "pyarrow_v2_zstd.parquet", compression="zstd", data_page_version="2.0")
pq.write_table(table, folder / "pyarrow_plain.parquet", compression="none", use_dictionary=False)
# What Spark and parquet-mr write: decimals as integers, pages of 20,000 rows, dictionaries of up to a megabyte.
pq.write_table(
    table, folder / "spark_like.parquet", compression="snappy", store_decimal_as_integer=True, write_page_index=True
)
integers = ["date_sk", "item_sk", "customer_sk", "ticket", "day_sk", "quantity", "half", "runs", "wide", "wide_nulls", "day", "nothing"]
pq.write_table(
    table,
    folder / "pyarrow_deltas.parquet",
    compression="zstd",
    use_dictionary=False,
    store_decimal_as_integer=True,
    data_page_version="2.0",
    column_encoding={name: "DELTA_BINARY_PACKED" for name in integers}
    | {name: "BYTE_STREAM_SPLIT" for name in ["list_price", "net_profit", "amount", "ratio"]}
    | {name: "DELTA_LENGTH_BYTE_ARRAY" for name in ["mode", "clerk"]}
    | {"note": "DELTA_BYTE_ARRAY", "flag": "RLE"},
)

frame = pl.from_arrow(table)
frame.write_parquet(folder / "polars_default.parquet")
frame.write_parquet(folder / "polars_snappy.parquet", compression="snappy", row_group_size=122880)
