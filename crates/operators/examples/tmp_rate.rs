//! x
#![allow(clippy::all, clippy::unwrap_used, clippy::disallowed_methods)]
use std::sync::Arc;
use std::time::Instant;
use arrow_array::*;
use arrow_schema::*;
use flott_core::state::*;
use flott_core::*;
fn main() {
    let keys: u64 = std::env::args().nth(1).unwrap().parse().unwrap();
    let mut registry = Registry::default();
    flott_operators::register_all(&mut registry);
    let input = schema_of(vec![Field::new("k", DataType::Int64, false), Field::new("v", DataType::Int64, false)]);
    for aggs in [r#"[{"function":"count"}]"#, r#"[{"function":"count"},{"function":"sum","column":1},{"function":"max","column":1}]"#] {
    for span in [10_000i64, 1_000_000_000] {
        let config = format!(r#"{{"size_ms":10000,"aggregates":{aggs}}}"#);
        let cfg: flott_operators::window_aggregate::WindowAggregateConfig = serde_json::from_str(&config).unwrap();
        let out = cfg.output(["a","b","c"], &input, &[0]).unwrap();
        let info = Arc::new(OperatorInfo{uid:"u".into(),name:"n".into(),index:0,parallelism:1,max_parallelism:128,inputs:vec![input.clone()],output:out,side_outputs:vec![],keys:vec![vec![0]]});
        let scope = KeyScope{key_types:vec![DataType::Int64],key_groups:0..128,max_parallelism:128};
        let mut members=[Member{info:info.clone(),state:Some(flott_state::HashMapBackend.create(scope,vec![]).unwrap()),operator_state:Default::default(),metrics:Default::default()}];
        let mut op = registry.operator("window_aggregate").unwrap().create(&Spec{factory:"window_aggregate".into(),config:config.into_bytes()},&info).unwrap();
        let mut outbox=Outbox::default();
        op.open(&mut Context::new(&mut members,0,&mut outbox,Timestamp::MIN,Timestamp(0))).unwrap();
        let n=2_000usize; let rows=4096usize;
        let mut x=1u64; let mut batches=vec![];
        let step = if span==10_000 {5} else {5};
        let jitter = if span==10_000 {1} else {30_000};
        for b in 0..n { let (mut k,mut v,mut t)=(vec![],vec![],vec![]);
            for r in 0..rows { x=x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407); k.push(((x>>33)%keys) as i64); v.push((x>>40) as i64); t.push(((b*rows+r)/400) as i64*step + ((x>>20)%jitter) as i64);}
            let cols:Vec<ArrayRef>=vec![Arc::new(Int64Array::from(k)),Arc::new(Int64Array::from(v))];
            let h=hash_keys(&cols[..1]).unwrap();
            batches.push(Batch::of(input.clone(),cols,rows).unwrap().with_event_times(Some(t.into())).with_key_hashes(Some(h))); }
        let mut wm=Timestamp::MIN; let mut emitted=0;
        let t0=Instant::now(); let mut fire=0u128;
        for b in &batches {
            let max=b.event_times().unwrap()[4095];
            let _=op.process(InputId(0),b.clone(),&mut Context::new(&mut members,0,&mut outbox,wm,Timestamp(0))).unwrap();
            members[0].state.as_mut().unwrap().end_call().unwrap();
            let t1=Instant::now();
            wm=Timestamp(max-jitter as i64*2-1);
            let mut p=op.on_watermark(wm,&mut Context::new(&mut members,0,&mut outbox,wm,Timestamp(0))).unwrap();
            members[0].state.as_mut().unwrap().end_call().unwrap();
            while p==Progress::Again { p=op.resume(&mut Context::new(&mut members,0,&mut outbox,wm,Timestamp(0))).unwrap(); members[0].state.as_mut().unwrap().end_call().unwrap();}
            emitted+=outbox.emitted.drain(..).map(|e|e.batch.num_rows()).sum::<usize>();
            fire+=t1.elapsed().as_nanos();
        }
        let total=t0.elapsed().as_nanos();
        println!("keys {keys} jitter {jitter} aggs {}: {:.1} ns/row process, {:.1} ns per emitted row ({emitted}), late {:?}", aggs.matches("function").count(), (total-fire) as f64/(n*rows) as f64, fire as f64/emitted.max(1) as f64, members[0].metrics.read());
    }}
}
