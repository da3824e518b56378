//! The code map of proof.md names functions and tests; this test notices when one of them is renamed or removed.

use std::fs;
use std::path::Path;

#[test]
fn every_name_in_the_code_map_exists() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let proof = fs::read_to_string(src.join("proof.md")).unwrap();
    let (_, map) = proof.split_once("## 13. Code map").unwrap();
    let mut names = 0;
    for cell in map.lines().flat_map(|line| line.split('|')) {
        let mut code = String::new();
        // Odd pieces are between backticks: a file, then names that it must define.
        for quoted in cell.split('`').skip(1).step_by(2) {
            if quoted.ends_with(".rs") {
                code = fs::read_to_string(src.join(quoted)).unwrap_or_else(|_| panic!("no file {quoted}"));
            } else {
                let defined = ["(", "<"].iter().any(|end| code.contains(&format!("fn {quoted}{end}")));
                assert!(defined, "{quoted} is in the code map but not in its file");
                names += 1;
            }
        }
    }
    assert!(names > 40, "the code map was not found: {names} names");
}
