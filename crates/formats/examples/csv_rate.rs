//! tmp
use std::io::Read;
use std::sync::Arc;
use arrow_schema::*;
fn main() {
    let n: usize = 10;
    let path = std::env::args().nth(1).unwrap();
    let schema = Arc::new(Schema::new(vec![
        Field::new("auction", DataType::Int64, false),
        Field::new("bidder", DataType::Int64, false),
        Field::new("price", DataType::Int64, false),
        Field::new("ts", DataType::Timestamp(TimeUnit::Millisecond, None), false),
    ]));
    let mut bytes = vec![];
    std::fs::File::open(path).unwrap().read_to_end(&mut bytes).unwrap();
    let t = std::time::Instant::now();
    let mut rows = 0;
    for _ in 0..n {
        let mut d = arrow_csv::ReaderBuilder::new(schema.clone()).with_batch_size(4096).build_decoder();
        let mut at = 0;
        loop {
            let used = d.decode(&bytes[at..(at + (1 << 20)).min(bytes.len())]).unwrap();
            if used == 0 || d.capacity() == 0 {
                match d.flush().unwrap() { Some(b) => rows += b.num_rows(), None => break }
            }
            at += used;
        }
    }
    println!("arrow-csv: {rows} rows {:?}", t.elapsed());
}
