use meshwright::strategy::Workload;
use meshwright::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let model = model::load(&a[1]).unwrap();
    let cluster = cluster::load(&a[2]).unwrap();
    let engine = profile::engine::engine(&a[3]).unwrap();
    let workload = Workload {
        global_batch: a[4].parse().unwrap(),
        seq_len: a[5].parse().unwrap(),
        precision: units::ElementType::Bf16,
        dropout: 0.0,
        clip: 1.0,
    };
    let fix = strategy::Draft::parse(a.get(6).map_or("", |s| s)).unwrap();
    let t = std::time::Instant::now();
    let problem = search::Problem::new(&model, &cluster, workload, engine, None);
    let request = search::Request { fix, top: 5, ..Default::default() };
    match plan::search(&problem, &request, &|_| {}) {
        Ok(plan) => {
            println!("{}", report::plan_text(&plan, report::Style { width: 110, colour: false }));
            let mut s = plan.search.unwrap();
            s.axes.clear();
            println!("{s:?}");
        }
        Err(e) => println!("{e}"),
    }
    println!("wall {:?}", t.elapsed());
}
