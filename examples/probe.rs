use meshwright::strategy::{Draft, Workload, resolve};
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
    let problem = search::Problem::new(&model, &cluster, workload, engine, None);
    for text in &a[6..] {
        let draft = Draft::parse(text).unwrap();
        let strategy = match resolve(&draft, &model, cluster.devices(), &workload, engine) {
            Ok(s) => s,
            Err(e) => {
                println!("{e}");
                continue;
            }
        };
        let t = std::time::Instant::now();
        let program = problem.program(&strategy);
        let t1 = t.elapsed();
        program::verify::verify(&program).unwrap();
        let t2 = t.elapsed();
        let n: usize = program.ranks.iter().map(|r| r.instruction_count()).sum();
        let pricing = problem.pricing(&strategy);
        let t3 = t.elapsed();
        let pb = simulate::play(&program, &pricing);
        let t4 = t.elapsed();
        let plan = plan::simulate(&problem, strategy);
        println!(
            "{}\n build {t1:?} verify {:?} pricing {:?} play {:?} instr {n}",
            plan.strategy.text,
            t2 - t1,
            t3 - t2,
            t4 - t3
        );
        let p = &plan.prediction;
        println!(
            " step {} mfu {:.3} tok/s/dev {:.0} peak {} process {} host {} fits {}",
            p.step_time_s,
            p.mfu,
            p.tokens_per_s_per_device,
            p.peak_memory_bytes,
            p.safe_memory_bytes.process,
            p.host_memory_bytes,
            p.fits
        );
        print!(" ");
        for (n, s) in p.time_s.parts() {
            print!("{n} {s}; ");
        }
        println!("hidden {}", p.communication_hidden_s);
        print!(" ");
        for (n, s) in p.memory_bytes.parts() {
            print!("{n} {s}; ");
        }
        println!();
        println!(" {}", plan.verdict);
        let _ = pb;
    }
}
