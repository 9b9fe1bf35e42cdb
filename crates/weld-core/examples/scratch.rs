fn main() {
    for source in std::env::args().skip(1) {
        let source = match source.strip_prefix('@') {
            Some(f) => std::fs::read_to_string(f).unwrap(),
            None => source,
        };
        let start = std::time::Instant::now();
        match weld_core::parse_program(&source) {
            Ok(p) => {
                let text = p.to_string();
                println!("{text}\n  : {}", p.body.ty);
                match weld_core::parse_program(&text) {
                    Ok(q) => {
                        if !p.same_as(&q) {
                            println!("DIFFERENT\n{q}")
                        }
                    }
                    Err(e) => println!("REPARSE FAILS\n{}", weld_core::diag::render(&e, &text, "again")),
                }
            }
            Err(e) => println!("{}", weld_core::diag::render(&e, &source, "t.weld")),
        }
        println!("----- {:?}", start.elapsed());
    }
}
