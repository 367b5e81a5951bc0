//! Products by name and identifier, and the silicon in them.
//!
//! Identifiers are those that a device reports as its model (`hw.machine`, `hw.model`). Names of iPhones are also
//! prefixes of identifiers of other iPhones: `iphone13` is the iPhone 13, `iPhone13,2` the iPhone 12.

/// One product.
#[derive(Debug)]
pub struct Product {
    /// Name, lower case, words joined by hyphens.
    pub name: &'static str,
    /// Other names.
    pub aliases: &'static [&'static str],
    /// Identifiers.
    pub identifiers: &'static [&'static str],
    /// Its silicon, by name.
    pub silicon: &'static str,
}

macro_rules! products {
    ( $( $name:literal [ $( $alias:literal ),* ] [ $( $id:literal ),* ] $silicon:literal; )* ) => {
        /// All known products.
        pub static PRODUCTS: &[Product] = &[ $( Product {
            name: $name, aliases: &[ $( $alias ),* ], identifiers: &[ $( $id ),* ], silicon: $silicon,
        } ),* ];
    };
}

// Name, other names, identifiers, silicon.
products! {
    "iphone-xs" [] ["iPhone11,2"] "a12";
    "iphone-xs-max" [] ["iPhone11,4", "iPhone11,6"] "a12";
    "iphone-xr" [] ["iPhone11,8"] "a12";
    "iphone-11" [] ["iPhone12,1"] "a13";
    "iphone-11-pro" [] ["iPhone12,3"] "a13";
    "iphone-11-pro-max" [] ["iPhone12,5"] "a13";
    "iphone-se-2" [] ["iPhone12,8"] "a13";
    "iphone-12-mini" [] ["iPhone13,1"] "a14";
    "iphone-12" [] ["iPhone13,2"] "a14";
    "iphone-12-pro" [] ["iPhone13,3"] "a14";
    "iphone-12-pro-max" [] ["iPhone13,4"] "a14";
    "iphone-13-pro" [] ["iPhone14,2"] "a15";
    "iphone-13-pro-max" [] ["iPhone14,3"] "a15";
    "iphone-13-mini" [] ["iPhone14,4"] "a15";
    "iphone-13" [] ["iPhone14,5"] "a15";
    "iphone-se-3" [] ["iPhone14,6"] "a15";
    "iphone-14" [] ["iPhone14,7"] "a15";
    "iphone-14-plus" [] ["iPhone14,8"] "a15";
    "iphone-14-pro" [] ["iPhone15,2"] "a16";
    "iphone-14-pro-max" [] ["iPhone15,3"] "a16";
    "iphone-15" [] ["iPhone15,4"] "a16";
    "iphone-15-plus" [] ["iPhone15,5"] "a16";
    "iphone-15-pro" [] ["iPhone16,1"] "a17-pro";
    "iphone-15-pro-max" [] ["iPhone16,2"] "a17-pro";
    "iphone-16-pro" [] ["iPhone17,1"] "a18-pro";
    "iphone-16-pro-max" [] ["iPhone17,2"] "a18-pro";
    "iphone-16" [] ["iPhone17,3"] "a18";
    "iphone-16-plus" [] ["iPhone17,4"] "a18";
    "iphone-16e" [] ["iPhone17,5"] "a18";
    "iphone-17-pro" [] ["iPhone18,1"] "a19-pro";
    "iphone-17-pro-max" [] ["iPhone18,2"] "a19-pro";
    "iphone-17" [] ["iPhone18,3"] "a19";
    "iphone-air" [] ["iPhone18,4"] "a19-pro";
    "iphone-17e" [] ["iPhone18,5"] "a19";
    "ipad-pro-a12x" ["ipad-pro-2018"] ["iPad8,1", "iPad8,2", "iPad8,3", "iPad8,4", "iPad8,5", "iPad8,6", "iPad8,7", "iPad8,8"] "a12x";
    "ipad-pro-a12z" ["ipad-pro-2020"] ["iPad8,9", "iPad8,10", "iPad8,11", "iPad8,12"] "a12x";
    "ipad-mini-5" [] ["iPad11,1", "iPad11,2"] "a12";
    "ipad-air-3" [] ["iPad11,3", "iPad11,4"] "a12";
    "ipad-8" [] ["iPad11,6", "iPad11,7"] "a12";
    "ipad-9" [] ["iPad12,1", "iPad12,2"] "a13";
    "ipad-air-4" [] ["iPad13,1", "iPad13,2"] "a14";
    "ipad-10" [] ["iPad13,18", "iPad13,19"] "a14";
    "ipad-mini-6" [] ["iPad14,1", "iPad14,2"] "a15";
    "ipad-a16" ["ipad-11"] ["iPad15,7", "iPad15,8"] "a16";
    "ipad-mini-7" ["ipad-mini-a17-pro"] ["iPad16,1", "iPad16,2"] "a17-pro";
    "ipad-pro-m1" ["ipad-pro-2021"] ["iPad13,4", "iPad13,5", "iPad13,6", "iPad13,7", "iPad13,8", "iPad13,9", "iPad13,10", "iPad13,11"] "m1";
    "ipad-air-m1" ["ipad-air-5"] ["iPad13,16", "iPad13,17"] "m1";
    "ipad-pro-m2" ["ipad-pro-2022"] ["iPad14,3", "iPad14,4", "iPad14,5", "iPad14,6"] "m2";
    "ipad-air-m2" [] ["iPad14,8", "iPad14,9", "iPad14,10", "iPad14,11"] "m2";
    "ipad-air-m3" [] ["iPad15,3", "iPad15,4", "iPad15,5", "iPad15,6"] "m3";
    "ipad-pro-m4" ["ipad-pro-2024"] ["iPad16,3", "iPad16,4", "iPad16,5", "iPad16,6"] "m4";
    "ipad-pro-m5" [] ["iPad17,1", "iPad17,2", "iPad17,3", "iPad17,4"] "m5";
    "macbook-air-m1" [] ["MacBookAir10,1"] "m1";
    "macbook-pro-m1" [] ["MacBookPro17,1"] "m1";
    "mac-mini-m1" [] ["Macmini9,1"] "m1";
    "imac-m1" [] ["iMac21,1", "iMac21,2"] "m1";
    "macbook-pro-m1-pro" [] ["MacBookPro18,1", "MacBookPro18,3"] "m1-pro";
    "macbook-pro-m1-max" [] ["MacBookPro18,2", "MacBookPro18,4"] "m1-max";
    "mac-studio-m1-max" [] ["Mac13,1"] "m1-max";
    "mac-studio-m1-ultra" [] ["Mac13,2"] "m1-ultra";
    "macbook-air-m2" [] ["Mac14,2", "Mac14,15"] "m2";
    "macbook-pro-m2" [] ["Mac14,7"] "m2";
    "mac-mini-m2" [] ["Mac14,3"] "m2";
    "mac-mini-m2-pro" [] ["Mac14,12"] "m2-pro";
    "macbook-pro-m2-pro" [] ["Mac14,9", "Mac14,10"] "m2-pro";
    "macbook-pro-m2-max" [] ["Mac14,5", "Mac14,6"] "m2-max";
    "mac-studio-m2-max" [] ["Mac14,13"] "m2-max";
    "mac-studio-m2-ultra" ["mac-pro-m2-ultra"] ["Mac14,14", "Mac14,8"] "m2-ultra";
    "macbook-air-m3" [] ["Mac15,12", "Mac15,13"] "m3";
    "macbook-pro-m3" [] ["Mac15,3"] "m3";
    "imac-m3" [] ["Mac15,4", "Mac15,5"] "m3";
    "macbook-pro-m3-pro" [] ["Mac15,6", "Mac15,7"] "m3-pro";
    "macbook-pro-m3-max" [] ["Mac15,8", "Mac15,9", "Mac15,10", "Mac15,11"] "m3-max";
    "mac-studio-m3-ultra" [] ["Mac15,14"] "m3-ultra";
    "macbook-pro-m4" [] ["Mac16,1"] "m4";
    "imac-m4" [] ["Mac16,2", "Mac16,3"] "m4";
    "mac-mini-m4" [] ["Mac16,10"] "m4";
    "macbook-air-m4" [] ["Mac16,12", "Mac16,13"] "m4";
    "macbook-pro-m4-pro" [] ["Mac16,7", "Mac16,8"] "m4-pro";
    "mac-mini-m4-pro" [] ["Mac16,11"] "m4-pro";
    "macbook-pro-m4-max" [] ["Mac16,5", "Mac16,6"] "m4-max";
    "mac-studio-m4-max" [] ["Mac16,9"] "m4-max";
    "macbook-pro-m5" [] ["Mac17,2"] "m5";
    "macbook-air-m5" [] ["Mac17,3", "Mac17,4"] "m5";
    "apple-tv-4k-2" [] ["AppleTV11,1"] "a12";
    "apple-tv-4k-3" [] ["AppleTV14,1"] "a15";
    "vision-pro" [] ["RealityDevice14,1"] "m2";
}
