//! What is exported now is what the engines' own parsers took: `tests/export/own_parsers/accepted.txt`.

use sha2::{Digest, Sha256};

use crate::place::Place;

const SAMPLES: &str = include_str!("../export/own_parsers/samples.txt");
const ACCEPTED: &str = include_str!("../export/own_parsers/accepted.txt");

/// Lines that are no comments.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

#[test]
fn every_sample_is_the_file_that_its_engine_took() {
    let accepted: Vec<(&str, &str)> = lines(ACCEPTED)
        .map(|line| {
            let mut words = line.split(' ');
            (words.next().unwrap(), words.next().unwrap())
        })
        .collect();
    assert_eq!(accepted.len(), lines(SAMPLES).count(), "run tests/export/own_parsers/check.sh");
    for (sample, (digest, target)) in lines(SAMPLES).zip(accepted) {
        let words: Vec<&str> = sample.split(' ').collect();
        let [to, engine, model, cluster, batch, sequence, strategy] = words[..] else { panic!("{sample}") };
        assert_eq!(to, target);
        let place = Place::new();
        let run = place.run([
            "simulate",
            model,
            "--cluster",
            cluster,
            "--global-batch",
            batch,
            "--seq-len",
            sequence,
            "--engine",
            engine,
            "--strategy",
            strategy,
            "--out",
            "plan.json",
        ]);
        assert!(matches!(run.code, 0 | 4), "{sample}: {}", run.stderr);
        let run = place.run(["export", "plan.json", "--to", to, "--out", "run", "--as-is", "--json"]);
        assert_eq!(run.code, 0, "{sample}: {}", run.stderr);
        let summary: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
        let file = place.read(&format!("run/{}", summary["files"][0].as_str().unwrap()));
        let now =
            Sha256::digest(file.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(now, digest, "{sample}: the file changed since its engine took it; run check.sh:\n{file}");
    }
}
