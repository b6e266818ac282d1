type t = { uri : string; account : (string * string) option; secret : string option }

let to_json each : Json.t =
  let name, proof =
    match (each.account, each.secret) with
    | Some (name, password), _ -> (name, password)
    | None, secret -> ("", Option.value secret ~default:"")
  in
  `List [ `String each.uri; `String name; `String proof; `Null; `Null; `Null ]
