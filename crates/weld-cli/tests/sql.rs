//! What `weld sql` prints.

mod common;

use common::{folder_with, tpch_data, weld, weld_with_input};

const CSV: &[u8] = b"id,name,price\n1,one,1.5\n2,\"t,wo\",\n";

#[test]
fn tables_for_people() {
    let expected = "\
+---+------+
| a | b    |
+---+------+
| 1 | text |
+---+------+
";
    assert_eq!(weld("sql -c", "select 1 as a, 'text' as b").ok(), expected);
}

#[test]
fn csv_and_json_for_scripts() {
    let folder = folder_with(&[("items.csv", CSV)]);
    let in_folder =
        |format: &str, sql: &str| weld(&format!("sql --format {format} {} -c", folder.path().display()), sql);
    assert_eq!(in_folder("csv", "select * from items order by id").ok(), "id,name,price\n1,one,1.5\n2,\"t,wo\",\n");
    assert_eq!(
        in_folder("json", "select * from items order by id").ok(),
        "{\"id\":1,\"name\":\"one\",\"price\":1.5}\n{\"id\":2,\"name\":\"t,wo\"}\n"
    );
    assert_eq!(in_folder("csv", "select * from items where id > 2").ok(), "id,name,price\n");
    assert_eq!(in_folder("json", "select * from items where id > 2").ok(), "");
}

#[test]
fn statements_come_from_the_command_line_a_file_or_standard_input() {
    let folder = folder_with(&[("q.sql", b"-- a comment; with a semicolon\nselect 1 as a;\nselect 'x;y' as b;\n")]);
    let file = folder.path().join("q.sql");
    let expected = "a\n1\nb\nx;y\n";
    assert_eq!(weld("sql --format csv -f", file.to_str().unwrap()).ok(), expected);
    assert_eq!(weld("sql --format csv -c", "select 1 as a; select 'x;y' as b").ok(), expected);
    assert_eq!(weld("sql --format csv -c", "-- a comment\nselect 1 as a; select 'x;y' as b").ok(), expected);
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(weld_with_input("sql --format csv", "", &text).ok(), expected);
}

#[test]
fn tables_are_named_or_found() {
    let data = tpch_data();
    let count = |source: String, table: &str| {
        weld(&format!("sql --format csv {source} -c"), &format!("select count(*) as n from {table}")).ok()
    };
    assert_eq!(count(data.display().to_string(), "nation"), "n\n25\n");
    assert_eq!(count(format!("--table n={}", data.join("nation.parquet").display()), "n"), "n\n25\n");
    // SQL reads names without quotes as lower case.
    let upper = format!("--table Nation={}", data.join("nation.parquet").display());
    assert_eq!(count(upper.clone(), "Nation"), "n\n25\n");
    assert_eq!(count(upper.clone(), "\"Nation\""), "n\n25\n");
    let both = format!("{upper} --table nation={}", data.join("region.parquet").display());
    assert_eq!(count(both.clone(), "nation"), "n\n5\n");
    assert_eq!(count(both, "\"Nation\""), "n\n25\n");
    // A folder of Parquet files is one table.
    let folder = folder_with(&[]);
    let many = folder.path().join("many");
    std::fs::create_dir(&many).unwrap();
    for name in ["a.parquet", "b.parquet"] {
        std::fs::copy(data.join("nation.parquet"), many.join(name)).unwrap();
    }
    assert_eq!(count(folder.path().display().to_string(), "many"), "n\n50\n");
    assert_eq!(count(format!("--table n={}", many.display()), "n"), "n\n50\n");
}

#[test]
fn folders_of_keys_are_columns() {
    let folder = folder_with(&[]);
    let path = folder.path().join("t");
    let write = format!(
        "copy (select column1 as v, column2 as k from (values (1, 'a'), (2, 'b'), (3, 'a'))) to '{}' stored as parquet \
         partitioned by (k)",
        path.display()
    );
    weld("sql -c", &write).ok();
    for source in [format!("--table t={}", path.display()), folder.path().display().to_string()] {
        for engine in ["datafusion", "weld"] {
            let command = format!("sql --format csv --engine {engine} {source} -c");
            let sums = weld(&command, "select k, sum(v) as s from t group by k order by k").ok();
            assert_eq!(sums, "k,s\na,4\nb,2\n", "{command}");
        }
    }
}

#[test]
fn settings_are_shown_and_reset() {
    let shown = weld(
        "sql --format csv -c",
        "show weld.join; set weld.join = false; show weld.join; reset weld.join; show weld.join;
         select count(*) as n from information_schema.df_settings where name = 'weld.enabled';
         set datafusion.execution.batch_size = 10; reset datafusion.execution.batch_size; show datafusion.execution.batch_size",
    )
    .ok();
    let join = |value| format!("name,value\nweld.join,{value}\n");
    let rest = "n\n1\nname,value\ndatafusion.execution.batch_size,8192\n";
    assert_eq!(shown, [join("true"), join("false"), join("true"), rest.to_owned()].concat());
    let unknown = weld("sql -c", "reset weld.no_such_setting").error(1);
    assert!(unknown.contains("weld"), "{unknown}");
}

#[test]
fn functions_of_the_session_are_shown() {
    let ours = "
        create function scaled(x double, by_much double) returns double language weld as '|x: f64, by_much: f64| x * by_much';
        create function initial(s varchar) returns varchar language weld as '|s: vec[u8]| slice(s, 0L, 1L)';
        create function Total(v float[3]) returns float language ttl
            as 'function float total(matrix<float>[3] v) { return v{0} + v{1} + v{2}; }';
        create function geo(x double) returns double language python as $$
@aggregate
class geo(object):
    layout = Struct([('n', 'Float')])
    def __init__(self):
        self.n = 0.0
    def step(self, x):
        self.n = self.n + x
    def merge(self, other):
        self.n = self.n + other.n
    def result(self):
        return self.n
$$;";
    let show = "show functions like 'scaled'; show functions like 'geo'; show functions like 'total'; show functions like 'initial';
        select routine_name, data_type from information_schema.routines where routine_name in ('geo', 'acosh') order by 1, 2;
        create view v as select parameter_mode, data_type from information_schema.parameters where specific_name = 'scaled';
        select * from v; drop function scaled; select * from v";
    let shown = weld("sql --no-cache --format json -c", &format!("{ours} {show}")).ok();
    let lines = r#"
{"function_name":"scaled","return_type":"Float64","parameters":["x","by_much"],"parameter_types":["Float64","Float64"],"function_type":"SCALAR","description":"LANGUAGE weld","syntax_example":"scaled(x, by_much)"}
{"function_name":"geo","return_type":"Float64","parameters":["x"],"parameter_types":["Float64"],"function_type":"AGGREGATE","description":"LANGUAGE python","syntax_example":"geo(x)"}
{"function_name":"total","return_type":"Float32","parameters":["v"],"parameter_types":["FixedSizeList(3 x Float32)"],"function_type":"SCALAR","description":"LANGUAGE ttl","syntax_example":"Total(v)"}
{"function_name":"initial","return_type":"String","parameters":["s"],"parameter_types":["String"],"function_type":"SCALAR","description":"LANGUAGE weld","syntax_example":"initial(s)"}
{"routine_name":"acosh","data_type":"Float32"}
{"routine_name":"acosh","data_type":"Float64"}
{"routine_name":"geo","data_type":"Float64"}
{"parameter_mode":"IN","data_type":"Float64"}
{"parameter_mode":"IN","data_type":"Float64"}
{"parameter_mode":"OUT","data_type":"Float64"}
"#;
    assert_eq!(shown, lines.trim_start());
}

#[test]
fn settings_change_what_follows() {
    let sql = "set datafusion.execution.target_partitions = 3; show datafusion.execution.target_partitions";
    assert!(weld("sql --format csv -c", sql).ok().contains("target_partitions,3"));
}

#[test]
fn tables_are_encoded_if_asked_for() {
    let statements = |setting: &str| {
        format!(
            "set weld.encode_tables = {setting}; create table t as select v, v % 3 as k from generate_series(1, 9) as g(v); \
                 insert into t values (10, 1); explain select * from t; select k, sum(v) as s from t group by k order by k;"
        )
    };
    for (setting, source) in [("true", "weld table, rows=10"), ("false", "partition_sizes=")] {
        let folder = folder_with(&[("t.sql", statements(setting).as_bytes())]);
        let file = folder.path().join("t.sql");
        let output = weld("sql --no-cache --format csv -f", file.to_str().unwrap()).ok();
        assert!(output.contains(source), "{output}");
        assert!(output.ends_with("k,s\n0,18\n1,22\n2,15\n"), "{output}");
    }
}

#[test]
fn both_engines_run_when_asked() {
    let folder = folder_with(&[("items.csv", CSV)]);
    let sql = "explain analyze select id + 1 from items where id > 1";
    let text = weld(&format!("sql --verify {} -c", folder.path().display()), sql).ok();
    assert!(text.contains("WeldVerify: compares with stock DataFusion") && text.contains("verified_rows=1"), "{text}");
    let text = weld("sql --verify --engine datafusion -c", "select 1").error(2);
    assert!(text.contains("--verify") && text.contains("--engine weld"), "{text}");
}

#[test]
fn lists_of_constants_and_fields_of_structs() {
    let sql = "CREATE FUNCTION miss(x FLOAT[2], y FLOAT, w FLOAT[2]) RETURNS STRUCT<value FLOAT, w FLOAT[2]> LANGUAGE ocannl AS
        'let%op miss x y = (\"w\" * x - y) **. 2.0';
        CREATE FUNCTION total(v DOUBLE[]) RETURNS DOUBLE LANGUAGE weld AS
        '|v: vec[f64]| result(for(v, merger[f64,+], |b, i, x| merge(b, x)))';
        SELECT miss([3, 1.0], 4, [1, 2])['value'] AS m, total([1, -2.5, 4]) AS t, total([]) AS e, [[1], [2, NULL]] AS l";
    assert_eq!(weld("sql --format json -c", sql).ok(), "{\"m\":1.0,\"t\":2.5,\"e\":0.0,\"l\":[[1],[2,null]]}\n");
    let null = sql.replace("[1, -2.5, 4]", "[1, NULL]");
    assert!(weld("sql --format json -c", &null).error(1).contains("a list with NULL in it is passed to total"));
}
