use anemone_program::*;
fn main(){ let a: Vec<String> = std::env::args().collect(); let b=std::fs::read(&a[2]).unwrap();
 match a[1].as_str(){ "td"=>{ let p = if a[2].ends_with(".bin"){raw::read_bin(&b).unwrap()}else{hwx::Container::read(&b).unwrap().program().unwrap()}; print!("{}",text::list(&p)); }
 "asm"=>print!("{}",text::list_container(&hwx::Container::read(&b).unwrap())), "dump"=>print!("{}",text::Dump::of_container(&hwx::Container::read(&b).unwrap(),&Default::default()).render()), _=>{} } }
