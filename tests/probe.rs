mod sampling;
#[test]
fn probe() {
    for seed in [1767, 201_621] {
        let case = sampling::case(seed).unwrap();
        let frozen: Vec<_> = case.model.layers().filter(|l| l.frozen).map(|l| l.name.clone()).collect();
        eprintln!(
            "{seed} {} losses {} layers {:?} frozen {frozen:?} {} {:?}",
            case.model.name,
            case.model.losses.len(),
            case.model.layers().map(|l| l.kind.name()).collect::<Vec<_>>(),
            case.text,
            case.workload
        );
        eprintln!("{:?}", case.strategy);
    }
}
