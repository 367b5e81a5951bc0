//! The root's vtable of our files is Apple's, byte for byte.

use anemone_facts::formats::e5 as rows;
use anemone_program::e5::{Record, Value};
use anemone_program::testing::write;

#[test]
fn the_root_stands_where_it_should() {
    let table = rows::table(rows::ROOT).expect("the root is in the rows");
    let mut root = Record::empty(table);
    for names in 0..9 {
        root.fields = vec![
            Value::List((0..names).map(|n| Value::Text("n".repeat(n))).collect()),
            Value::Record(Box::new(Record::empty(rows::table("BuildInfo").expect("a table")))),
            Value::List(Vec::new()),
            Value::Number(rows::FORMAT_VERSION as u64),
        ];
        let bytes = write(&root);
        assert_eq!(bytes[..8], [0x14, 0, 0, 0, 0, 0, 0, 0], "{names} names");
        assert_eq!(bytes[8..20], rows::ROOT_VTABLE);
        // The table begins with the offset back to its vtable.
        assert_eq!(bytes[20..24], [0x0c, 0, 0, 0]);
        assert_eq!(bytes.len() % 8, 0);
    }
}
